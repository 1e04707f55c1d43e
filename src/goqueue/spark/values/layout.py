"""Columns as a scan fills them: numbered, each in a domain, and the tree that they make.

A domain is the rows (0), or the items of one list.  A subtree's columns have numbers that follow
each other, those of its lists' items among them.
"""

from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from goqueue.spark.values.errors import NoColumns

COLUMNS_MAX: Final = 2_000
ROWS: Final = 0
NO_DOMAIN: Final = -1


class Layout:
    """Gives numbers to columns and domains."""

    def __init__(self) -> None:
        self._columns: list[tuple[int, int]] = []  # domain, and that of its items
        self._domains: list[tuple[int, int]] = [(0, 0)]  # parent, and the column of the list

    @property
    def column_count(self) -> int:
        return len(self._columns)

    @property
    def domain_count(self) -> int:
        return len(self._domains)

    def add_column(self, domain: int) -> int:
        if len(self._columns) >= COLUMNS_MAX:
            raise NoColumns(f"the schema has more than {COLUMNS_MAX} columns: read it as bytes")
        self._columns.append((domain, NO_DOMAIN))
        return len(self._columns) - 1

    def add_list(self, domain: int) -> tuple[int, int]:
        """A column of lists; gives its number, and the domain of the items."""
        column = self.add_column(domain)
        child = len(self._domains)
        self._columns[column] = (domain, child)
        self._domains.append((domain, column))
        return column, child

    def domain_of(self, column: int) -> int:
        return self._columns[column][0]

    def columns(self) -> Any:
        return np.array(self._columns, np.int64).reshape(-1)

    def domains(self) -> Any:
        return np.array(self._domains, np.int64).reshape(-1)


class Node(msgspec.Struct):
    """A column and those below it: from `column` up to, not with, `last`."""

    column: int
    domain: int
    type: Any
    """Arrow's."""
    last: int = 0


class Leaf(Node):
    kind: str = "long"
    """How the cell is to be read: long, real, boolean, bytes, decimal or enum."""
    symbols: tuple[str, ...] = ()
    """Of an enum."""
    factor: int = 1
    """What the number is multiplied by."""


class Struct(Node):
    children: list[Node] = []


class ListOf(Node, kw_only=True):
    child: int
    """The domain of the items."""
    item: Node


class MapOf(ListOf, kw_only=True):
    keys: Node


def struct_type(names: list[str], nodes: list[Node]) -> Any:
    return pa.struct([pa.field(name, each.type) for name, each in zip(names, nodes, strict=True)])
