"""Bytes in, whole frames out, with at most one copy of anything large.

A frame is a request without its 4-byte length.  Small frames are cut out of one buffer that all
connections use in turn: an event loop receives into it and hands it over in one step, so a quiet
connection holds only the bytes of a frame that is not whole.  A frame that does not fit gets a
buffer of its own, into which the rest is received directly: that is the buffer which the log
later stamps and writes.

A length is a claim.  Beyond `OWN_BYTES` a frame's buffer grows with what has really come, so that
four bytes from a stranger never cost a hundred megabytes.
"""

import ctypes
import struct
from typing import Final

from goqueue.wire.errors import MalformedRequest

SHARED_BYTES: Final = 64 * 1024
OWN_BYTES: Final = 1024 * 1024
HTTP_METHODS: Final = (
    b"GET ",
    b"POST",
    b"PUT ",
    b"HEAD",
    b"DELE",
    b"OPTI",
    b"PATC",
    b"CONN",
    b"PRI ",
)
TLS_HANDSHAKE: Final = b"\x16\x03"
_LENGTH: Final = struct.Struct(">i")
_resize: Final = ctypes.pythonapi.PyByteArray_Resize
_resize.argtypes = (ctypes.py_object, ctypes.c_ssize_t)


class HttpRequest(MalformedRequest):
    """Somebody took this port for the HTTP port."""


class FrameBuffer:
    def __init__(
        self,
        frame_bytes_max: int,
        shared: bytearray | None = None,
        *,
        port: str = "Kafka",
        limited_by: str = "setting kafka.request_bytes_max",
    ) -> None:
        """`shared` belongs to one event loop: its connections take turns with it.

        The texts are for whoever sends what is no frame.
        """
        self.frame_bytes_max = frame_bytes_max  # of the frames that come next
        self._port = port
        self._limited_by = limited_by
        self._shared = bytearray(SHARED_BYTES) if shared is None else shared
        assert len(self._shared) == SHARED_BYTES
        self._begun = b""  # of a small frame that is not whole
        self._own: bytearray | None = None  # of a frame too large for the shared buffer
        self._own_filled = 0
        self._own_size = 0  # of that frame when it is whole
        self._is_new = True  # no frame came yet
        self.problem: MalformedRequest | None = None  # why no frame can follow those given so far

    @property
    def held_bytes(self) -> int:
        """Memory that a frame takes which has begun and is not whole; 0 when there is none."""
        return len(self._begun) if self._own is None else len(self._own)

    def space(self) -> memoryview:
        """Where the next bytes go."""
        if self._own is not None:
            if self._own_filled == len(self._own):
                self._own = self._grow(self._own)
            return memoryview(self._own)[self._own_filled :]
        self._shared[: len(self._begun)] = self._begun
        return memoryview(self._shared)[len(self._begun) :]

    def receive(self, count: int) -> list[bytearray]:
        """`count` bytes were written into `space()`: gives the frames that are whole now.

        After a length that cannot be, there is a `problem`, and nothing more is a frame.
        """
        if self.problem is not None:
            return []
        if self._own is not None:
            self._own_filled += count
            if self._own_filled < self._own_size:
                return []
            whole, self._own = self._own, None
            return [whole]
        return self._cut(len(self._begun) + count)

    def drop(self) -> None:
        """Let go of the bytes of a frame that is not whole: the connection is over."""
        self._own = None
        self._begun = b""

    def _cut(self, filled: int) -> list[bytearray]:
        frames: list[bytearray] = []
        at = 0
        self._begun = b""
        while filled - at >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._shared, at)
            if not 0 < size <= self.frame_bytes_max:
                self.problem = self._problem(size, bytes(self._shared[at : at + _LENGTH.size]))
                return frames
            self._is_new = False
            start = at + _LENGTH.size
            if start + size <= filled:
                frames.append(self._shared[start : start + size])
                at = start + size
            elif _LENGTH.size + size > SHARED_BYTES:
                self._give_own_buffer(size, start, filled)
                return frames
            else:
                break
        self._begun = bytes(self._shared[at:filled])
        return frames

    def _problem(self, size: int, start: bytes) -> MalformedRequest:
        """What is wrong with a request that starts so; other protocols are told by their names."""
        if self._is_new and start in HTTP_METHODS:
            return HttpRequest(f"an HTTP request: this is the {self._port} port")
        if self._is_new and start.startswith(TLS_HANDSHAKE):
            return MalformedRequest(
                f"a TLS handshake: this is the {self._port} port, and it speaks no TLS"
                " (clients set security.protocol=PLAINTEXT)"
            )
        return MalformedRequest(
            f"a request of {size} bytes; allowed are 1 to {self.frame_bytes_max}"
            f" ({self._limited_by})"
        )

    def _give_own_buffer(self, size: int, start: int, filled: int) -> None:
        self._own_size = size
        self._own = _allocate(min(size, OWN_BYTES))
        self._own_filled = filled - start
        self._own[: self._own_filled] = self._shared[start:filled]

    def _grow(self, full: bytearray) -> bytearray:
        """A copy with room for as much again: whoever still looks at `full` need not let go."""
        larger = _allocate(min(self._own_size, 2 * len(full)))
        larger[: len(full)] = full
        return larger


def _allocate(size: int) -> bytearray:
    """Not cleared, which is a twentieth of what a large request costs: all of it is received into.

    `receive` gives a frame only when its last byte is there.
    """
    made = bytearray()
    _resize(made, size)  # raises MemoryError, as bytearray(size) does
    return made
