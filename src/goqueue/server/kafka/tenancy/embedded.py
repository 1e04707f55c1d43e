"""The topics in the bytes that classic consumers send each other through their group.

Layout as in `groups/embedded.py`.  Bytes that are not so are left as they are: then they are
something of the clients' own, which the broker does not read either.
"""

import struct
from collections.abc import Callable

Change = Callable[[str], str]


def change_subscription(data: bytes, change: Change) -> bytes:
    return _change(data, change, is_subscription=True)


def change_assignment(data: bytes, change: Change) -> bytes:
    return _change(data, change, is_subscription=False)


def _change(data: bytes, change: Change, *, is_subscription: bool) -> bytes:
    if not data:
        return data
    try:
        copier = _Copier(data, change)
        version = copier.number(">h")
        if is_subscription:
            for _ in range(copier.count()):
                copier.name()
            copier.rest_of_bytes()
            if version >= 1:
                copier.partitions()
        else:
            copier.partitions()
        return copier.finish()
    except (struct.error, ValueError, IndexError):
        return data


class _Copier:
    """Copies bytes, with other names."""

    def __init__(self, data: bytes, change: Change) -> None:
        self._data = data
        self._at = 0
        self._change = change
        self._out: list[bytes] = []

    def number(self, layout: str) -> int:
        (found,) = struct.unpack_from(layout, self._data, self._at)
        self._take(struct.calcsize(layout))
        return int(found)

    def count(self) -> int:
        count = self.number(">i")
        if not 0 <= count <= len(self._data):
            raise ValueError("no such count")
        return count

    def name(self) -> None:
        (size,) = struct.unpack_from(">h", self._data, self._at)
        end = self._at + 2 + size
        if size < 0 or end > len(self._data):
            raise ValueError("no such name")
        changed = self._change(self._data[self._at + 2 : end].decode()).encode()
        self._out.append(struct.pack(">h", len(changed)) + changed)
        self._at = end

    def rest_of_bytes(self) -> None:
        self._take(max(self.number(">i"), 0))

    def partitions(self) -> None:
        for _ in range(self.count()):
            self.name()
            self._take(4 * self.count())

    def finish(self) -> bytes:
        return b"".join(self._out) + self._data[self._at :]

    def _take(self, size: int) -> None:
        end = self._at + size
        if end > len(self._data):
            raise ValueError("cut off")
        self._out.append(self._data[self._at : end])
        self._at = end
