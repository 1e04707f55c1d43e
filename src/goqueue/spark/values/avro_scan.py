# cython: annotation_typing=False, boundscheck=False, wraparound=False, initializedcheck=False
"""The loop over Avro payloads that is compiled: each value goes to a cell of its column.

`avro_program.py` makes the program of a pair of schemas, writer's and reader's: numbers in `code`,
where a node is an operation and its operands, and refers to other nodes by where they stand.  The
program is run once a payload.  Interpreted this class gives the same answers, much slower.

Columns lie one after the other in `cells` (a number, or start and length of bytes in `octets`) and
in `flags` (0 for null, else how to read the cell).  A column belongs to a *domain*: the rows, or
the items of one list.  `counts` has the next place of each domain.  The cell of a list holds where
its items end, so that those of the row before tell where they begin.  That is how a payload is
forgotten which turns out to be wrong in its middle.

Input is hostile until read.  The compiler checks no bounds here, so each length is compared with
what is left before it is used.
"""

from goqueue.schemas.limits import PAYLOAD_DEPTH_MAX
from goqueue.spark.values import avro_ops as ops

# As C's numbers: the compiler makes those of names that only this module has.
_LONG = ops.LONG
_BYTES = ops.BYTES
_UNION = ops.UNION
_RECORD = ops.RECORD
_NULL = ops.NULL
_DOUBLE = ops.DOUBLE
_FLOAT = ops.FLOAT
_BOOLEAN = ops.BOOLEAN
_FIXED = ops.FIXED
_ENUM = ops.ENUM
_ARRAY = ops.ARRAY
_MAP = ops.MAP
_CONSTANT = ops.CONSTANT
_CONSTANT_LIST = ops.CONSTANT_LIST
_MEMBER = ops.MEMBER
_STEPS = ops.STEPS
_SKIP_NUMBER = ops.SKIP_NUMBER
_SKIP_BYTES = ops.SKIP_BYTES
_SKIP_FIXED = ops.SKIP_FIXED
_SKIP_ARRAY = ops.SKIP_ARRAY
_SKIP_MAP = ops.SKIP_MAP
_PLAIN = ops.PLAIN
_BAD = ops.BAD
_FULL = ops.FULL

_DEPTH_MAX = PAYLOAD_DEPTH_MAX
_EMPTY_ITEMS_MAX = 1024  # items of a payload that take no bytes, as nulls do
_NO_DOMAIN = -1
_ALL_BITS = 0xFFFF_FFFF_FFFF_FFFF

View = memoryview


class Scanner:
    """A program, payloads to run it on, and the columns that it fills."""

    def __init__(
        self,
        code: View,
        octets: View,
        starts: View,
        ends: View,
        bad: View,
        columns: View,
        domains: View,
    ) -> None:
        """`columns` has the domain of each and the domain of its items, or -1; `domains` has, for
        each but the first, the parent and the column of its list."""
        self.code = code
        self.octets = octets
        self.starts = starts
        self.ends = ends
        self.bad = bad
        self.columns = columns
        self.domains = domains
        self.full = 0  # the domain that has no room
        self.value = 0
        self.items_left = 0

    def give_room(
        self, cells: View, flags: View, bases: View, counts: View, capacities: View
    ) -> None:
        """`bases` is where each column begins; `capacities` how many places a domain has."""
        self.cells = cells
        self.flags = flags
        self.bases = bases
        self.counts = counts
        self.capacities = capacities

    def scan(self, row: int) -> int:
        """Go on with `row`; gives the row for which a list had no room, or the number of rows."""
        total = len(self.starts)
        while row < total:
            self.counts[0] = row
            self.items_left = self.ends[row] - self.starts[row] + _EMPTY_ITEMS_MAX
            position = self._run(0, self.starts[row], self.ends[row], 0)
            if position != self.ends[row]:
                self._forget(row)
                if position == _FULL:
                    return row
                self.bad[row] = 1
                self._fill(0, len(self.bases), 0)
            row += 1
        self.counts[0] = total
        return total

    def _forget(self, row: int) -> None:
        """What the row has put into lists."""
        self.counts[0] = row
        for domain in range(1, len(self.counts)):
            index = self.counts[self.domains[2 * domain]]
            if index > 0:
                column = self.domains[2 * domain + 1]
                self.counts[domain] = self.cells[self.bases[column] + index - 1]
            else:
                self.counts[domain] = 0

    def _run(self, node: int, position: int, end: int, depth: int) -> int:
        """Run a node; gives the position behind what it read, or BAD, or FULL."""
        op = self.code[node]
        if op == _LONG:
            position = self._number(position, end)
            if position < 0 or self.value < self.code[node + 4] or self.value > self.code[node + 5]:
                return _BAD
            self._put(node, self.value)
            return position
        if op == _BYTES:
            position = self._length(position, end)
            if position < 0:
                return _BAD
            self._put(node, position << 32 | self.value)
            return position + self.value
        if depth > _DEPTH_MAX:
            return _BAD
        if op == _UNION:
            position = self._number(position, end)
            if position < 0 or self.value < 0 or self.value >= self.code[node + 1]:
                return _BAD
            return self._run(self.code[node + 2 + self.value], position, end, depth + 1)
        if op == _NULL:
            self._fill(self.code[node + 1], self.code[node + 2], self.code[node + 3])
            return position
        if op == _RECORD:
            place = self.bases[self.code[node + 1]] + self.counts[self.code[node + 2]]
            self.flags[place] = _PLAIN
            return self._steps(node + 3, position, end, depth)
        if op == _DOUBLE or op == _FLOAT:  # noqa: SIM109 -- a tuple would be made, or searched
            size = 8 if op == _DOUBLE else 4
            if size > end - position:
                return _BAD
            self._put(node, self._word(position, size))
            return position + size
        if op == _BOOLEAN:
            if position >= end or self.octets[position] > 1:
                return _BAD
            self._put(node, self.octets[position])
            return position + 1
        if op == _ENUM:
            position = self._number(position, end)
            if position < 0 or self.value < 0 or self.value >= self.code[node + 4]:
                return _BAD
            index = self.code[node + 5 + self.value]
            if index < 0:
                return _BAD
            self._put(node, index)
            return position
        if op == _FIXED:
            if self.code[node + 4] > end - position:
                return _BAD
            self._put(node, position << 32 | self.code[node + 4])
            return position + self.code[node + 4]
        if op == _ARRAY or op == _MAP:  # noqa: SIM109
            child = self.code[node + 3]
            keys = self.code[node + 5] if op == _MAP else _BAD
            position = self._blocks(self.code[node + 4], child, keys, position, end, depth)
            if position >= 0:
                place = self.bases[self.code[node + 1]] + self.counts[self.code[node + 2]]
                self.cells[place] = self.counts[child]
                self.flags[place] = _PLAIN
            return position
        return self._run_rare(op, node, position, end, depth)

    def _run_rare(self, op: int, node: int, position: int, end: int, depth: int) -> int:
        if op == _SKIP_NUMBER:
            return self._number(position, end)
        if op == _SKIP_BYTES:
            position = self._length(position, end)
            return position + self.value if position >= 0 else _BAD
        if op == _SKIP_FIXED:
            return position + self.code[node + 1] if self.code[node + 1] <= end - position else _BAD
        if op == _SKIP_ARRAY or op == _SKIP_MAP:  # noqa: SIM109
            keys = 0 if op == _SKIP_MAP else _BAD
            return self._blocks(self.code[node + 1], _NO_DOMAIN, keys, position, end, depth)
        if op == _STEPS:
            return self._steps(node + 1, position, end, depth)
        if op == _CONSTANT:
            self._put(node, self.code[node + 4])
            return position
        if op == _CONSTANT_LIST:
            child = self.code[node + 3]
            for index in range(self.code[node + 4]):
                if self.counts[child] >= self.capacities[child]:
                    self.full = child
                    return _FULL
                position = self._run(self.code[node + 5 + index], position, end, depth + 1)
                if position < 0:
                    return position
                self.counts[child] += 1
            place = self.bases[self.code[node + 1]] + self.counts[self.code[node + 2]]
            self.cells[place] = self.counts[child]
            self.flags[place] = _PLAIN
            return position
        if op == _MEMBER:
            place = self.bases[self.code[node + 1]] + self.counts[self.code[node + 2]]
            self.flags[place] = _PLAIN
            self._fill(self.code[node + 3], self.code[node + 4], self.code[node + 2])
            return self._run(self.code[node + 5], position, end, depth + 1)
        return _BAD

    def _steps(self, at: int, position: int, end: int, depth: int) -> int:
        """The nodes of a list that begins with its length."""
        for index in range(at + 1, at + 1 + self.code[at]):
            position = self._run(self.code[index], position, end, depth + 1)
            if position < 0:
                return position
        return position

    def _blocks(self, item: int, child: int, keys: int, position: int, end: int, depth: int) -> int:
        """The items of an array or a map; `keys`: their column, BAD for an array."""
        while True:
            position = self._number(position, end)
            if position < 0:
                return _BAD
            count = self.value
            if count == 0:
                return position
            if count < 0:  # the size of the block follows
                count = -count
                position = self._number(position, end)
                if position < 0 or count < 0 or self.value < 0:
                    return _BAD
            while count > 0:
                self.items_left -= 1
                if self.items_left < 0:
                    return _BAD
                if child >= 0 and self.counts[child] >= self.capacities[child]:
                    self.full = child
                    return _FULL
                if keys >= 0:
                    position = self._length(position, end)
                    if position < 0:
                        return _BAD
                    if child >= 0:
                        place = self.bases[keys] + self.counts[child]
                        self.cells[place] = position << 32 | self.value
                        self.flags[place] = _PLAIN
                    position += self.value
                position = self._run(item, position, end, depth + 1)
                if position < 0:
                    return position
                if child >= 0:
                    self.counts[child] += 1
                count -= 1

    def _put(self, node: int, cell: int) -> None:
        place = self.bases[self.code[node + 1]] + self.counts[self.code[node + 2]]
        self.cells[place] = cell
        self.flags[place] = self.code[node + 3]

    def _fill(self, first: int, last: int, domain: int) -> None:
        """Null for the columns from `first` up to, not with, `last` that are of the domain."""
        for column in range(first, last):
            if self.columns[2 * column] == domain:
                place = self.bases[column] + self.counts[domain]
                child = self.columns[2 * column + 1]
                self.flags[place] = 0
                self.cells[place] = self.counts[child] if child >= 0 else 0

    def _length(self, position: int, end: int) -> int:
        """Of bytes that follow, in `value`; gives the position of these, or BAD."""
        position = self._number(position, end)
        if position < 0 or self.value < 0 or self.value > end - position:
            return _BAD
        return position

    def _number(self, position: int, end: int) -> int:
        """A zigzag varint to `value`; gives the position behind it, or BAD."""
        if position < end:
            byte = self.octets[position]
            if byte < 0x80:
                self.value = (byte >> 1) ^ -(byte & 1)
                return position + 1
        folded = 0
        shift = 0
        while position < end:
            byte = self.octets[position]
            position += 1
            if byte < 0x80:
                if shift == 63 and byte > 1:
                    return _BAD
                folded |= byte << shift
                self.value = (folded >> 1) ^ -(folded & 1)
                return position
            if shift == 63:
                return _BAD
            folded |= (byte & 0x7F) << shift
            shift += 7
        return _BAD

    def _word(self, position: int, size: int) -> int:
        """Bytes, lowest first, as the number that has these bits."""
        word = 0
        while size > 0:
            size -= 1
            word = (word << 8) | self.octets[position + size]
        if word >> 63:
            word ^= _ALL_BITS
            negative = word
            return -negative - 1
        return word
