"""gzip, both ways: answers for those who accept it, and request bodies, within their bound."""

import asyncio
import gzip
import re
import zlib
from collections.abc import Mapping
from typing import Final

from litestar.exceptions import HTTPException

from goqueue.model.errors import InvalidRequest

COMPRESSED_BYTES_MIN: Final = 1_024  # smaller answers fit a packet as they are
LEVEL: Final = 1  # three times faster than 6, and a tenth larger
IN_THREAD_BYTES: Final = 16_384  # more than that would hold the event loop for long
GZIP_WINDOW: Final = 31  # zlib's way to say: with gzip's head

_KINDS: Final = re.compile(rb"application/json|application/openmetrics-text|text/(?!event-stream)")
_MESSAGES: Final = ("/messages", "/receive", "/poll", "/peek", "/stream")
_REFUSED: Final = re.compile(r";\s*q\s*=\s*0(\.0*)?\s*$")


def may_compress(setting: str, method: str, route: str) -> bool:
    """Whether the setting `http.compress` has this operation's answers compressed."""
    match setting:
        case "all":
            return True
        case "documents":
            return method == "GET" and not route.endswith(_MESSAGES)
        case _:
            return False


def accepts_gzip(headers: Mapping[bytes, bytes]) -> bool:
    accepted = headers.get(b"accept-encoding", b"").decode("latin-1").lower()
    return any(
        each.partition(";")[0].strip() == "gzip" and not _REFUSED.search(each)
        for each in accepted.split(",")
    )


def is_compressible(content_type: bytes) -> bool:
    return _KINDS.match(content_type) is not None


async def compress(body: bytes) -> bytes:
    if len(body) < IN_THREAD_BYTES:
        return gzip.compress(body, LEVEL)
    return await asyncio.to_thread(gzip.compress, body, LEVEL)


class Inflater:
    """A request body that arrives compressed, piece by piece."""

    def __init__(self, bytes_max: int) -> None:
        self._stream = zlib.decompressobj(wbits=GZIP_WINDOW)
        self._bytes_left = bytes_max

    async def feed(self, data: bytes, *, is_last: bool) -> bytes:
        try:
            found = await asyncio.to_thread(self._stream.decompress, data, self._bytes_left + 1)
        except zlib.error as error:
            raise InvalidRequest(f"the body is not gzip: {error}") from error
        self._bytes_left -= len(found)
        if self._bytes_left < 0:
            raise HTTPException(status_code=413)
        if is_last and not self._stream.eof:
            raise InvalidRequest("the body is not gzip: it ends in the middle")
        return found
