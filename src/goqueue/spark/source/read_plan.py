"""How to read: small and plain, made by the driver, and all that travels to the tasks."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from goqueue.client.kafka import NO_LOGIN, KafkaLogin
from goqueue.spark.source.options import TIMEOUT_MS, SourceOptions, Unit
from goqueue.spark.source.schema import wanted_columns

if TYPE_CHECKING:
    from goqueue.spark.source.value_plan import ValuePlan


class ReadPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How to read, whatever the range."""

    bootstrap: str
    login: KafkaLogin = NO_LOGIN
    columns: tuple[str, ...]
    unit: Unit = "record"
    read_committed: bool = True
    fail_on_data_loss: bool = True
    fetch_bytes: int | None = None
    """None: what suits the decoder, which is known where the task runs."""
    log_dir: str | None = None
    timeout_ms: int = TIMEOUT_MS
    values: "ValuePlan | None" = None
    """By which schema values are read; None: they are bytes."""


def read_plan_for(options: SourceOptions, fields: Sequence[tuple[str, str]]) -> ReadPlan:
    """For a schema of these fields, given as name and type; raises `WrongColumns`."""
    values, others = _values(options, dict(fields))
    return ReadPlan(
        bootstrap=options.bootstrap,
        login=options.login,
        columns=wanted_columns(fields, options.unit, others),
        unit=options.unit,
        read_committed=options.read_committed,
        fail_on_data_loss=options.fail_on_data_loss,
        fetch_bytes=options.fetch_bytes,
        log_dir=options.log_dir,
        timeout_ms=options.timeout_ms,
        values=values,
    )


def _values(
    options: SourceOptions, fields: Mapping[str, str]
) -> tuple["ValuePlan | None", dict[str, str]]:
    """How values are read if they are asked for, and the columns that come of it."""
    told = options.values
    if told is None or not {"value", told.corrupt} & fields.keys():
        return None, {}
    from goqueue.spark.source.value_plan import find_plan, simple_type

    plan = find_plan(options, told, fields.get("value"))
    others = {"value": simple_type(plan)}
    if told.mode == "permissive":
        others[told.corrupt] = "binary"
    return plan, others
