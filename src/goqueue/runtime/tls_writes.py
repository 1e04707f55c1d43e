"""What is handed to a TLS transport at once.

The event loop encrypts all of it into a memory buffer of OpenSSL before it sends any.  That buffer
grows by a third at a time, each time cleared and copied, and nothing of it is in the processor's
caches by then.  In pieces it stays small: it is filled, sent, and filled again.
"""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Final

PIECE_BYTES: Final = 128 * 1024  # whole records of TLS, which have at most 16 KiB
JOINED_BYTES: Final = 4096  # parts below go with their neighbours: each write begins a record

Part = bytes | bytearray | memoryview


def write_in_pieces(transport: asyncio.WriteTransport, parts: Iterable[Part]) -> None:
    for piece in pieces(parts):
        transport.write(piece)


def pieces(parts: Iterable[Part]) -> Iterator[Part]:
    """The same bytes, in pieces of a good size."""
    small = bytearray()
    for part in parts:
        if len(part) <= JOINED_BYTES and len(small) < PIECE_BYTES:
            small += part
            continue
        if small:
            yield small
            small = bytearray()
        view = memoryview(part)
        for at in range(0, len(view), PIECE_BYTES):
            yield view[at : at + PIECE_BYTES]
    if small:
        yield small
