"""Is anything listening there?  A bare socket asks, before an HTTP client is loaded for it."""

import socket
from typing import Final
from urllib.parse import urlsplit

PORTS: Final = {"http": 80, "https": 443}


def is_listening(url: str, timeout_seconds: float) -> bool:
    try:
        parts = urlsplit(url)
        address = (parts.hostname or "localhost", parts.port or PORTS.get(parts.scheme, 80))
        with socket.create_connection(address, timeout=timeout_seconds):
            return True
    except (OSError, ValueError):
        return False
