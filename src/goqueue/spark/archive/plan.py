"""What the driver tells the tasks of a batch, and what they tell it."""

from typing import Literal

import msgspec

from goqueue.spark.lake.table import DataFile, Placement
from goqueue.spark.lake.writing import WriteSettings
from goqueue.spark.source.value_plan import ValuePlan

Kind = Literal["rows", "dlq"]


class TopicPlan(msgspec.Struct, frozen=True):
    """A topic's two tables.  A partition that is not listed is one the driver has not met."""

    rows: Placement
    dlq: Placement
    schema: bytes  # of the table of rows, as Arrow serializes it
    rows_from: dict[int, int]  # partition -> the first offset that the table lacks
    dlq_from: dict[int, int]
    values: ValuePlan | None = None
    """By which schema of the registry values are read; None: JSON, or not at all."""
    newest_id: int = -1
    """The largest id of a schema that the driver has thought of."""


class Plan(msgspec.Struct, frozen=True):
    topics: dict[str, TopicPlan]
    decode: bool = False  # fields of values are columns
    keep_value: bool = True
    writing: WriteSettings = WriteSettings()


class Report(msgspec.Struct):
    """Of one task.  With strangers or findings the batch must be done again, and files is empty."""

    files: list[tuple[str, Kind, DataFile]] = []
    ends: dict[str, dict[int, int]] = {}
    """Topic, partition, and the offset behind the last row that was there."""
    strangers: list[tuple[str, int]] = []
    """Topics and partitions of rows that the plan does not list."""
    found: list[tuple[str, bytes]] = []
    """Topic and schema of fields that its table lacks, in the order in which they were met."""

    newer: dict[str, int] = {}
    """Topic, and the largest id of a schema that is newer than those that the driver knows."""

    @property
    def is_complete(self) -> bool:
        return not (self.strangers or self.found or self.newer)
