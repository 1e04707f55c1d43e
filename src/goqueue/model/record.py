"""One record, as everything that looks inside a batch sees it."""

from typing import Final

import msgspec

Buffer = bytes | bytearray | memoryview
Headers = tuple[tuple[str, bytes | None], ...]

RECORD_HEADERS_MAX: Final = 10_000
"""Headers of one record.  Two bytes are enough for a header, and in memory it takes a hundred or
more: without a bound a batch of 100 kB could unfold to gigabytes of headers."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """A record with its place and time made absolute."""

    offset: int
    timestamp: int  # wall-clock milliseconds, -1 when the producer gave none
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
