"""One record, as everything that looks inside a batch sees it."""

import msgspec

Buffer = bytes | bytearray | memoryview
Headers = tuple[tuple[str, bytes | None], ...]


class Record(msgspec.Struct, frozen=True, gc=False):
    """A record with its place and time made absolute."""

    offset: int
    timestamp: int  # wall-clock milliseconds, -1 when the producer gave none
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
