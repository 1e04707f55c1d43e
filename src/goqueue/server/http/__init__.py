"""HTTP: the API, its document and page, health and metrics."""

from goqueue.server.http.listener import HttpListener
from goqueue.server.http.readiness import Health

__all__ = ["Health", "HttpListener"]
