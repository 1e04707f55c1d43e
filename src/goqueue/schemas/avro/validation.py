"""Whether bytes are a value of an Avro type: a walk that builds nothing.

fastavro's reader is not used on what a producer sends: a linked list that is nested deeply
enough ends the process, and an array of a few bytes can stand for 2^62 nulls.  The walk has a
bound for both.
"""

from goqueue.schemas.avro.model import Array, AvroType, Enum, Fixed, Map, Record, Union
from goqueue.schemas.limits import (
    PAYLOAD_DEPTH_MAX,
    PAYLOAD_STEPS_MAX,
    STEPS_A_BYTE,
    STEPS_FREE,
)
from goqueue.schemas.schema import Problem


class AvroValidator:
    weight = 8  # in Python, value by value

    def __init__(self, type_: AvroType) -> None:
        self._type = type_

    def check(self, payload: memoryview) -> Problem | None:
        walk = _Walk(payload)
        try:
            walk.skip(self._type, 0)
        except _Invalid as invalid:
            return Problem("".join(f"/{each}" for each in reversed(invalid.path)), invalid.text)
        if walk.position < len(payload):
            return Problem("", f"{len(payload) - walk.position} bytes are left over")
        return None


class _Invalid(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text
        self.path: list[str] = []  # from the inside out

    def within(self, name: str | int) -> "_Invalid":
        self.path.append(str(name))
        return self


class _Walk:
    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._steps = 0
        # Values without any bytes (nulls, empty records) must not be many more than the bytes.
        self._steps_max = min(PAYLOAD_STEPS_MAX, STEPS_FREE + STEPS_A_BYTE * len(data))
        self.position = 0

    def skip(self, type_: AvroType, depth: int) -> None:
        self._steps += 1
        if self._steps > self._steps_max:
            raise _Invalid(f"more than {self._steps_max} values in {len(self._data)} bytes")
        if depth > PAYLOAD_DEPTH_MAX:
            raise _Invalid(f"nested deeper than {PAYLOAD_DEPTH_MAX} levels")
        match type_.kind:
            case "string":
                self._string()
            case "int":
                self._number(-(1 << 31), (1 << 31) - 1)
            case "long":
                self._number(-(1 << 63), (1 << 63) - 1)
            case "double":
                self._take(8)
            case "float":
                self._take(4)
            case "boolean":
                start = self._take(1)
                if self._data[start] > 1:
                    raise _Invalid("a boolean is 0 or 1")
            case "bytes":
                self._take(self._length())
            case "null":
                pass
            case _:
                self._skip_complex(type_, depth)

    def _skip_complex(self, type_: AvroType, depth: int) -> None:
        match type_:
            case Record():
                for field in type_.fields:
                    try:
                        self.skip(field.type, depth + 1)
                    except _Invalid as invalid:
                        raise invalid.within(field.name) from None
            case Union():
                index = self._number(0, len(type_.branches) - 1)
                self.skip(type_.branches[index], depth + 1)
            case Enum():
                self._number(0, len(type_.symbols) - 1)
            case Fixed():
                self._take(type_.size)
            case Array():
                self._blocks(type_.items, depth, has_keys=False)
            case Map():
                self._blocks(type_.values, depth, has_keys=True)
            case _:
                raise AssertionError(type_.kind)

    def _blocks(self, type_: AvroType, depth: int, *, has_keys: bool) -> None:
        index = 0
        while count := self._number(-(1 << 63), (1 << 63) - 1):
            if count < 0:  # the size of the block in bytes follows
                count = -count
                self._length()
            for _ in range(count):
                try:
                    if has_keys:
                        self._string()
                    self.skip(type_, depth + 1)
                except _Invalid as invalid:
                    raise invalid.within(index) from None
                index += 1

    def _string(self) -> None:
        length = self._length()
        start = self._take(length)
        try:
            str(self._data[start : start + length], "utf-8")
        except UnicodeDecodeError:
            raise _Invalid("a string that is not UTF-8") from None

    def _length(self) -> int:
        return self._number(0, (1 << 63) - 1)

    def _take(self, size: int) -> int:
        start = self.position
        if size > len(self._data) - start:
            raise _Invalid(f"{size} bytes are expected, and {len(self._data) - start} are left")
        self.position = start + size
        return start

    def _number(self, low: int, high: int) -> int:
        """A zigzag varint."""
        data, position, result, shift = self._data, self.position, 0, 0
        while True:
            if position >= len(data) or shift > 63:
                raise _Invalid("a number is cut off" if shift <= 63 else "a number is too long")
            byte = data[position]
            position += 1
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        self.position = position
        value = (result >> 1) ^ -(result & 1)
        if not low <= value <= high:
            raise _Invalid(f"{value} is outside {low} to {high}")
        return value
