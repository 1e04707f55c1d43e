"""Spark's rows as values that JSON and YAML have."""

import base64
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any


def plain_rows(rows: list[Any]) -> list[dict[str, Any]]:
    return [{name: plain(value) for name, value in row.asDict().items()} for row in rows]


def plain(value: Any) -> Any:
    """Times in RFC 3339, bytes as text or base64, rows as mappings."""
    match value:
        case datetime():
            return _moment(value)
        case date():
            return value.isoformat()
        case timedelta():
            return str(value)
        case Decimal():
            return _number(value)
        case bytes() | bytearray():
            return _text(bytes(value))
        case dict():
            return {str(plain(name)): plain(each) for name, each in value.items()}
        case tuple() if hasattr(value, "asDict"):  # a row
            return {name: plain(each) for name, each in value.asDict().items()}
        case list() | tuple():
            return [plain(each) for each in value]
        case _:
            return value


def _moment(value: datetime) -> str:
    """Spark gives times as this machine's clocks show them, without saying so."""
    aware = value if value.tzinfo is not None else value.astimezone()
    text = aware.astimezone(UTC).isoformat(timespec="microseconds")
    return text.removesuffix("+00:00").removesuffix("000") + "Z"


def _number(value: Decimal) -> float | int | str:
    """A number where it stays the same, else its text."""
    if value == value.to_integral_value():
        return int(value)
    return float(value) if Decimal(str(float(value))) == value else str(value)


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()
