"""HTTP: the API, its document and page, health and metrics."""

from goqueue.server.http.asgi.listener import HttpListener
from goqueue.server.http.asgi.readiness import Health

__all__ = ["Health", "HttpListener"]
