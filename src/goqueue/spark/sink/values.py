"""Rows whose column `value` is written by a schema of the registry.

The driver finds the schema, or registers it, whenever a writer is planned: a stream has a writer a
micro-batch, so it follows the subject's latest version.  Tasks need no registry.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
import pyarrow as pa

from goqueue.client.errors import ClientError
from goqueue.client.kafka import NO_LOGIN, KafkaLogin
from goqueue.schemas import SchemaText, SchemaType
from goqueue.spark.source.option_texts import Given
from goqueue.spark.values.deriving import avro_schema
from goqueue.spark.values.registry import Registry, Subject
from goqueue.spark.values.writing import ValueWriter

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

Format = Literal["registry", "avro", "json", "protobuf"]
NAMES: Final = (
    "auto.register.schemas",
    "schema.registry.url",
    "value.format",
    "value.schema",
    "value.schema.version",
    "value.subject",
)
RECORD_NAME: Final = "Value"


class NoSchemaToWrite(ClientError):
    """Values cannot be written by a schema, as things are."""


class WriteValueOptions(msgspec.Struct, frozen=True, kw_only=True):
    format: Format
    subject: str | None = None
    """None: TOPIC-value."""
    version: int | None = None
    """None: the latest."""
    schema: str | None = None
    """Registered if it is not there."""
    registers: bool | None = None
    """Whether columns are registered as a schema of their own; None: if the subject has none."""
    registry: str | None = None


def write_value_options(reading: Given) -> WriteValueOptions | None:
    """None where values are bytes or text."""
    format = reading.choice("value.format", "binary", "registry", "avro", "json", "protobuf")
    if format == "binary":
        for name in NAMES:
            if name != "value.format" and reading.text(name) is not None:
                reading.problems.append(f"{name}: belongs to value.format=registry")
        return None
    told = WriteValueOptions(
        format=format,  # type: ignore[arg-type]  # `choice` has made sure
        subject=reading.text("value.subject"),
        version=None if _is_latest(reading) else reading.whole("value.schema.version"),
        schema=reading.text("value.schema"),
        registers=None
        if reading.text("auto.register.schemas") is None
        else reading.flag("auto.register.schemas", True),
        registry=reading.text("schema.registry.url"),
    )
    if told.schema is not None and told.format == "registry":
        reading.problems.append("value.schema: say what it is, as value.format=avro")
    if told.schema is not None and told.version is not None:
        reading.problems.append("value.schema: give this or value.schema.version")
    return told


def _is_latest(reading: Given) -> bool:
    return (reading.text("value.schema.version") or "latest").lower() == "latest"


class ValuePlan(msgspec.Struct, frozen=True, dict=True):
    """How tasks write; plain data."""

    subject: Subject

    @cached_property
    def writer(self) -> ValueWriter:
        return ValueWriter(self.subject.parse(), self.subject.id)

    def apply(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same rows, their values in the wire format; raises `UnwritableRows`."""
        for batch in batches:
            place = batch.schema.get_field_index("value")
            yield batch.set_column(place, "value", self.writer.write(batch.column(place)))


def find_plan(
    told: WriteValueOptions,
    column: "DataType",
    *,
    topic: str | None,
    url: str,
    timeout_ms: int,
    login: KafkaLogin = NO_LOGIN,
) -> ValuePlan:
    """Raises `NoSchemaToWrite`, `UnwritableRows`, and `Refused` for an incompatible schema."""
    subject = told.subject or (None if topic is None else f"{topic}-value")
    if subject is None:
        raise NoSchemaToWrite(
            "rows name their topics, and values of all are written by one schema: name its subject"
            " with the option value.subject"
        )
    kind = _arrow(column)
    with Registry(told.registry or url, timeout_ms, login) as registry:
        plan = ValuePlan(_subject(told, registry, subject, kind))
    plan.writer.check(kind)
    return plan


def _subject(told: WriteValueOptions, registry: Registry, name: str, kind: Any) -> Subject:
    if told.schema is not None:
        return registry.register(name, SchemaText(told.schema, SchemaType(told.format.upper())))
    found = None if told.registers else registry.find(name, told.version)
    if found is None and told.registers is not False and told.version is None:
        if told.format not in ("registry", "avro"):
            raise NoSchemaToWrite(
                f"subject {name!r} has no schema, and only one of Avro is made of columns: register"
                " one, or give it with the option value.schema"
            )
        return registry.register(name, avro_schema(kind, RECORD_NAME))
    if found is None:
        which = "no schema" if told.version is None else f"no version {told.version}"
        raise NoSchemaToWrite(f"subject {name!r} has {which}: register it first")
    if told.format not in ("registry", found.schema.schema_type.lower()):
        raise NoSchemaToWrite(
            f"value.format is {told.format}, and version {found.version} of {name!r} is"
            f" {found.schema.schema_type.lower()}"
        )
    return found


def _arrow(column: "DataType") -> Any:
    from pyspark.sql.pandas.types import to_arrow_type

    from goqueue.spark.lake.growth import plain_type

    return plain_type(to_arrow_type(column, timezone="UTC"))
