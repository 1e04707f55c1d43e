"""What the nodes of one command print, on one stream: each line says which node it is from."""

import contextlib
import sys
from collections.abc import AsyncIterator
from typing import Final, Protocol, TextIO

import msgspec
import typer

COLORS: Final = ("cyan", "yellow", "green", "magenta", "blue")
CHUNK_BYTES: Final = 65_536
LINE_BYTES_MAX: Final = 1_048_576  # a longer one is cut


class Readable(Protocol):
    async def read(self, n: int, /) -> bytes: ...


class NodeLog:
    """Writes lines of the nodes' logs."""

    def __init__(self, *, is_readable: bool, stream: TextIO | None = None) -> None:
        self._is_readable = is_readable
        self._stream = sys.stderr if stream is None else stream

    def write(self, node_id: int, line: str) -> None:
        """Drops what cannot be written: the nodes go on."""
        labeled = self._label(node_id, line) if self._is_readable else label_json(node_id, line)
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(f"{labeled}\n")
            self._stream.flush()

    def _label(self, node_id: int, line: str) -> str:
        label = f"node {node_id} |"
        if self._stream.isatty():
            label = typer.style(label, fg=COLORS[(node_id - 1) % len(COLORS)])
        return f"{label} {line}"


def label_json(node_id: int, line: str) -> str:
    """A line of JSON with the node in it; what is none, a traceback say, becomes an event."""
    if line.startswith("{") and line.endswith("}"):
        return f'{{"node_id": {node_id}, {line[1:]}'
    event = {"node_id": node_id, "event": line, "level": "error"}
    return msgspec.json.encode(event).decode()


async def lines_of(stream: Readable) -> AsyncIterator[str]:
    rest = b""
    while chunk := await stream.read(CHUNK_BYTES):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.decode(errors="replace")
        if len(rest) > LINE_BYTES_MAX:
            yield rest.decode(errors="replace")
            rest = b""
    if rest:
        yield rest.decode(errors="replace")
