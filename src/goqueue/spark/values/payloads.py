"""Payloads in one buffer, and what reading them gives."""

from typing import Any, NamedTuple

import numpy as np

from goqueue.spark.columns import engines
from goqueue.spark.columns.fields import Slots


class Payloads(NamedTuple):
    """From a start to an end in `octets`, for each row; none is null."""

    octets: Any
    starts: Any  # int64
    ends: Any
    is_framed: bool = True
    """They follow the id of a schema in the wire format: with Protobuf, an index comes first."""

    def payload(self, row: int) -> memoryview:
        return memoryview(self.octets).cast("B")[int(self.starts[row]) : int(self.ends[row])]

    def column(self) -> Any:
        """As an array of their own."""
        starts = self.starts.astype(np.int32)
        lengths = (self.ends - self.starts).astype(np.int32)
        return engines.choose().gather(self.octets, Slots(starts, lengths))


class Bad(dict[int, str]):
    """Rows that are not what their schema says, and why."""


class Read(NamedTuple):
    column: Any
    """A row for each payload; null for bad ones."""
    bad: Bad
