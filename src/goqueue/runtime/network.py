"""The real network: TCP through the running event loop."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Final

from goqueue.runtime.tls_listener import HANDSHAKE_SECONDS, Handshakes, TlsListener

BACKLOG: Final = 1024


class RealListener:
    def __init__(self, server: asyncio.Server) -> None:
        self._server = server
        host, port = server.sockets[0].getsockname()[:2]
        self.address: tuple[str, int] = (host, port)  # also when it is closed

    async def close(self) -> None:
        self._server.close()


class RealNetwork:
    async def listen(
        self,
        host: str,
        port: int,
        connection: Callable[[], asyncio.BaseProtocol],
        tls: ssl.SSLContext | None = None,
        handshakes: Handshakes | None = None,
    ) -> RealListener | TlsListener:
        if tls is not None and handshakes is not None:
            listening = socket.create_server(
                (host, port), family=_family(host), backlog=BACKLOG, reuse_port=False
            )
            listening.setblocking(False)
            return TlsListener(listening, connection, tls, handshakes)
        server = await asyncio.get_running_loop().create_server(
            connection,
            host or None,
            port,
            family=_family(host),
            backlog=BACKLOG,
            reuse_address=True,
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else HANDSHAKE_SECONDS,
        )
        return RealListener(server)

    async def connect(
        self,
        host: str,
        port: int,
        connection: Callable[[], asyncio.BaseProtocol],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        await asyncio.get_running_loop().create_connection(
            connection,
            host,
            port,
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else HANDSHAKE_SECONDS,
        )


def _family(host: str) -> socket.AddressFamily:
    # One address a listener: "localhost" must not become two sockets on two different free ports.
    return socket.AF_INET6 if ":" in host else socket.AF_INET
