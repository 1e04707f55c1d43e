"""How to read: small and plain, made by the driver, and all that travels to the tasks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.spark.source.options import TIMEOUT_MS, SourceOptions, Unit
from goqueue.spark.source.schema import wanted_columns

if TYPE_CHECKING:
    from goqueue.client.kafka import KafkaClient

CLIENT_ID: Final = "goqueue-spark"


class ReadPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How to read, whatever the range."""

    bootstrap: str
    columns: tuple[str, ...]
    unit: Unit = "record"
    read_committed: bool = True
    fail_on_data_loss: bool = True
    fetch_bytes: int | None = None
    """None: what suits the decoder, which is known where the task runs."""
    log_dir: str | None = None
    timeout_ms: int = TIMEOUT_MS


def read_plan_for(options: SourceOptions, fields: Sequence[tuple[str, str]]) -> ReadPlan:
    """For a schema of these fields, given as name and type; raises `WrongColumns`."""
    return ReadPlan(
        bootstrap=options.bootstrap,
        columns=wanted_columns(fields, options.unit),
        unit=options.unit,
        read_committed=options.read_committed,
        fail_on_data_loss=options.fail_on_data_loss,
        fetch_bytes=options.fetch_bytes,
        log_dir=options.log_dir,
        timeout_ms=options.timeout_ms,
    )


def connect(bootstrap: str, timeout_ms: int) -> "KafkaClient":
    """The client that readers use."""
    from goqueue.client.kafka import KafkaClient

    return KafkaClient(bootstrap, client_id=CLIENT_ID, timeout_s=timeout_ms / 1000)
