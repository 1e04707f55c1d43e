"""What a sink's query keeps between micro-batches: windows, joins, keys that were seen.

Read from the checkpoint by Spark's own readers of state, as of the last batch; the query may run
meanwhile.
"""

from typing import Any, Final

import msgspec

from goqueue.spark.sql.rows import plain_rows

JOIN: Final = "symmetricHashJoin"
SIDES: Final = ("left", "right")


class OperatorState(msgspec.Struct, frozen=True):
    operator: int
    name: str
    """As Spark calls it: `stateStoreSave` is an aggregate, `dedupe…` seen keys."""
    side: str | None
    """Of a join."""
    batch: int
    """The last one that is in it."""
    rows: int
    examples: list[dict[str, Any]]
    """`key`, and the `value` that is kept for it."""


def read_state(spark: Any, checkpoint: str, examples: int) -> list[OperatorState]:
    """Of each operator that keeps something; none: the query keeps nothing."""
    found = spark.read.format("state-metadata").load(checkpoint).collect()
    operators = {each["operatorId"]: each for each in found}
    return [
        _read(spark, checkpoint, row, side, examples)
        for _, row in sorted(operators.items())
        for side in (SIDES if row["operatorName"] == JOIN else (None,))
    ]


def _read(
    spark: Any, checkpoint: str, operator: Any, side: str | None, examples: int
) -> OperatorState:
    reader = spark.read.format("statestore").option("operatorId", operator["operatorId"])
    if side is not None:
        reader = reader.option("joinSide", side)
    kept = reader.load(checkpoint)
    columns = [each for each in kept.columns if each != "partition_id"]
    return OperatorState(
        operator["operatorId"],
        operator["operatorName"],
        side,
        operator["maxBatchId"],
        kept.count(),
        plain_rows(kept.select(*columns).limit(examples).collect()),
    )
