"""Values that are archived by their schemas in the registry.

The table has the columns of the subject's latest version.  A task that meets a newer schema than
the driver knew tells it so, and the batch is done again with the columns that there are then:
nothing that was written is left out because the archive was started before.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from goqueue.spark.lake import LakeError
from goqueue.spark.lake.growth import objections_to_names
from goqueue.spark.lake.json_values import Decoded
from goqueue.spark.source.value_plan import ValuePlan
from goqueue.spark.values.framing import frames_of


def registry_fields(values: ValuePlan, *, reserved_prefix: str) -> Any:
    """Raises `LakeError` for values that are no records, or have names that no table takes."""
    kind = values.reader().type
    where = f"version {values.subject.version} of {values.subject.name!r}"
    if not pa.types.is_struct(kind):
        raise LakeError(
            f"{where} is no record, so there are no columns: archive values as they are"
        )
    fields = pa.schema(list(kind))
    refused = objections_to_names(fields, reserved_prefix=reserved_prefix)
    if refused:
        told = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
        raise LakeError(f"{where}: {told}")
    return fields


def read_values(values: ValuePlan, records: Any, fields: Any) -> tuple[Decoded, int]:
    """Rows as columns of the table, and the largest id of a schema that they name."""
    column = records.column("value")
    read = values.reader().read(column, lambda: records.column("headers"))
    bad = dict(read.bad)
    names = [each.name for each in read.column.type]
    given = dict(zip(names, read.column.flatten(), strict=True))
    table = [_fit(given.get(each.name), each, len(column), bad) for each in fields]
    good = np.setdiff1d(np.arange(len(column)), np.fromiter(bad, np.int64, len(bad)))
    rows = pa.Table.from_arrays(table, schema=fields)
    if len(good) < len(column):
        rows = rows.take(pa.array(good))
    newest = int(frames_of(column).ids.max(initial=-1))
    return Decoded(good.tolist(), [rows], sorted(bad.items()), []), newest


def _fit(column: Any, field: Any, count: int, bad: dict[int, str]) -> Any:
    """The column in the table's type, which may be an older one; what does not fit is bad."""
    if column is None:
        return pa.nulls(count, field.type)
    if column.type == field.type:
        return column
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        parts = []
        for row in range(count):
            try:
                parts.append(column.slice(row, 1).cast(field.type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                bad.setdefault(row, f"{field.name}: the table has {field.type}: {error}")
                parts.append(pa.nulls(1, field.type))
        return pa.concat_arrays(parts)
