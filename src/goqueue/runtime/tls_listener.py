"""A listener whose TLS handshakes are watched: its owner hears of those that fail.

An event loop's own server says nothing about them: a client with a certificate of a foreign
authority would leave no trace.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine
from typing import Any, Final

import msgspec
import structlog

HANDSHAKE_SECONDS: Final = 10.0
HANDSHAKES_MAX: Final = 1_000  # at once; further clients wait in the socket's backlog
RETRY_SECONDS: Final = 1.0  # after an error of the socket: there are no handles left, say

_log = structlog.get_logger("goqueue.tls")

Factory = Callable[[], asyncio.BaseProtocol]


class Handshakes(msgspec.Struct, frozen=True):
    """Who runs them, and who hears of those that fail: the client's address, and why."""

    tasks: asyncio.TaskGroup
    failed: Callable[[str, ssl.SSLError], None]


class TlsListener:
    def __init__(
        self,
        listening: socket.socket,
        connection: Factory,
        tls: ssl.SSLContext,
        handshakes: Handshakes,
    ) -> None:
        self._socket = listening
        self._connection = connection
        self._tls = tls
        self._handshakes = handshakes
        self._room = asyncio.Semaphore(HANDSHAKES_MAX)
        host, port = listening.getsockname()[:2]
        self.address: tuple[str, int] = (host, port)  # also when it is closed
        self._under_way: set[asyncio.Task[None]] = set()
        self._start(self._accept())

    async def close(self) -> None:
        """Also to those who have not finished their handshake."""
        ending = list(self._under_way)
        for task in ending:
            task.cancel()
        if ending:
            await asyncio.wait(ending)
        self._socket.close()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._handshakes.tasks.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._room.acquire()
            try:
                client, address = await loop.sock_accept(self._socket)
            except OSError:
                self._room.release()
                await asyncio.sleep(RETRY_SECONDS)
                continue
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._start(self._shake_hands(client, str(address[0])))

    async def _shake_hands(self, client: socket.socket, host: str) -> None:
        """Then the connection is its protocol's."""
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._connection,
                client,
                ssl=self._tls,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
            )
        except ssl.SSLError as error:
            self._handshakes.failed(host, error)
        except (OSError, TimeoutError):
            pass  # it went away, as port scanners and health checks do
        except Exception:
            _log.exception("connection failed", host=host)
        finally:
            self._room.release()
