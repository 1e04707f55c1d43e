"""Options about values that have a schema in the registry: by which one, and what if one does not
fit.  The modes and `columnNameOfCorruptRecord` are those of Spark's own `from_avro` and JSON."""

from typing import Final, Literal

import msgspec

from goqueue.spark.source.option_texts import Given

ValueFormat = Literal["registry", "avro", "json", "protobuf"]
Mode = Literal["failfast", "permissive", "dropmalformed"]
CORRUPT: Final = "_corrupt_record"
LATEST: Final = "latest"
NAMES: Final = (
    "columnNameOfCorruptRecord",
    "mode",
    "schema.registry.url",
    "value.format",
    "value.schema.version",
    "value.subject",
)


class ValueOptions(msgspec.Struct, frozen=True, kw_only=True):
    format: ValueFormat
    """`registry`: whatever the subject's schema is; others insist on one."""
    subject: str | None = None
    """None: TOPIC-value, as Confluent's serializers name it."""
    version: int | None = None
    """Of the subject, to read with; None: the latest when the query begins."""
    registry: str | None = None
    """The HTTP listener; None: the brokers say."""
    mode: Mode = "failfast"
    corrupt: str = CORRUPT


def value_options(reading: Given) -> ValueOptions | None:
    """None where values are bytes."""
    format = reading.choice("value.format", "binary", "registry", "avro", "json", "protobuf")
    if format == "binary":
        for name in NAMES:
            if name not in ("value.format", "mode") and reading.text(name) is not None:
                reading.problems.append(f"{name}: belongs to value.format=registry")
        return None
    return ValueOptions(
        format=format,  # type: ignore[arg-type]  # `choice` has made sure
        subject=reading.text("value.subject"),
        version=_version(reading),
        registry=reading.text("schema.registry.url"),
        mode=reading.choice("mode", "failfast", "permissive", "dropmalformed"),
        corrupt=reading.text("columnNameOfCorruptRecord") or CORRUPT,
    )


def _version(reading: Given) -> int | None:
    text = reading.text("value.schema.version")
    if text is None or text.lower() == LATEST:
        return None
    return reading.whole("value.schema.version")
