"""What stands between a job and its object store: everything passes, but for some seconds."""

import contextlib
import socket
import threading
from collections.abc import Iterator

CHUNK_BYTES = 65_536
AWAY_S = 5.0


class Relay:
    """Has a port of its own.  Cut, it drops what is open and takes nothing new for a while."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: set[socket.socket] = set()
        self._left: int | None = None  # connections that still pass
        self.cuts = 0

    @contextlib.contextmanager
    def running(self) -> Iterator["Relay"]:
        threading.Thread(target=self._accept, daemon=True).start()
        try:
            yield self
        finally:
            self._listener.close()
            self._drop()

    def cut_after(self, connections: int) -> None:
        self._left = connections

    def mend(self) -> None:
        self._left = None

    def _accept(self) -> None:
        while True:
            try:
                ours, _ = self._listener.accept()
            except OSError:
                return
            if self._left is not None:
                self._left -= 1
                if self._left == -1:
                    self.cuts += 1
                    threading.Timer(AWAY_S, self.mend).start()
                if self._left < 0:
                    ours.close()
                    self._drop()
                    continue
            theirs = socket.create_connection(self._target)
            self._open |= {ours, theirs}
            for source, sink in ((ours, theirs), (theirs, ours)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK_BYTES):
                sink.sendall(data)
        for each in (source, sink):
            self._open.discard(each)
            each.close()

    def _drop(self) -> None:
        for each in list(self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
