"""Avro schemas and data for them, made by Hypothesis, and what Spark is to see of a datum."""

import io
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import fastavro
from hypothesis import strategies as st

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NAMES = ("a", "b", "c", "d")
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


class Numbers:
    """Names of records and enums, none of them twice in a schema."""

    def __init__(self) -> None:
        self.used = 0

    def name(self, kind: str) -> str:
        self.used += 1
        return f"{kind}{self.used}"


def schemas(depth: int = 3) -> st.SearchStrategy[Any]:
    return st.builds(Numbers).flatmap(lambda numbers: _record(numbers, depth))


def _record(numbers: Numbers, depth: int) -> st.SearchStrategy[Any]:
    fields = st.lists(_type(numbers, depth - 1), min_size=1, max_size=4)
    return fields.map(
        lambda kinds: {
            "type": "record",
            "name": numbers.name("R"),
            "fields": [
                {"name": name, "type": kind} for name, kind in zip(NAMES, kinds, strict=False)
            ],
        }
    )


def _type(numbers: Numbers, depth: int) -> st.SearchStrategy[Any]:
    leaf = st.sampled_from(PRIMITIVES) | st.sampled_from(
        [
            {"type": "int", "logicalType": "date"},
            {"type": "long", "logicalType": "timestamp-millis"},
            {"type": "long", "logicalType": "timestamp-micros"},
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        ]
    )
    enum = st.builds(
        lambda: {"type": "enum", "name": numbers.name("E"), "symbols": ["X", "Y", "Z"]}
    )
    fixed = st.builds(lambda: {"type": "fixed", "name": numbers.name("F"), "size": 3})
    if depth <= 0:
        return leaf | enum | fixed
    inner = _type(numbers, depth - 1)
    optional = inner.filter(lambda kind: kind != "null" and not isinstance(kind, list)).map(
        lambda kind: ["null", kind]
    )
    several = st.sampled_from((["string", "long"], ["null", "int", "boolean"], ["int", "long"]))
    return st.one_of(
        leaf,
        enum,
        fixed,
        inner.map(lambda kind: {"type": "array", "items": kind}),
        inner.map(lambda kind: {"type": "map", "values": kind}),
        optional,
        several,
        _record(numbers, depth),
    )


def data(schema: Any) -> st.SearchStrategy[Any]:
    """As fastavro takes it: of a union a pair with the branch's name, so that none is guessed."""
    if isinstance(schema, list):
        return st.one_of(*(data(each) for each in schema))
    if isinstance(schema, str):
        return _primitive(schema)
    match schema:
        case {"logicalType": "date"}:
            return st.integers(-100_000, 100_000)
        case {"logicalType": "timestamp-millis"}:
            return st.integers(-(10**12), 10**13)
        case {"logicalType": "timestamp-micros"}:
            return st.integers(-(10**15), 10**16)
        case {"logicalType": "decimal"}:
            return st.integers(-(10**9) + 1, 10**9 - 1).map(_number_bytes)
        case {"type": "record", "fields": fields}:
            return st.fixed_dictionaries({each["name"]: data(each["type"]) for each in fields})
        case {"type": "array", "items": items}:
            return st.lists(data(items), max_size=4)
        case {"type": "map", "values": values}:
            return st.dictionaries(st.text(max_size=4), data(values), max_size=3)
        case {"type": "enum", "symbols": symbols}:
            return st.sampled_from(symbols)
        case {"type": "fixed", "size": size}:
            return st.binary(min_size=size, max_size=size)
        case _:
            raise AssertionError(schema)


def _primitive(kind: str) -> st.SearchStrategy[Any]:
    return {
        "null": st.none(),
        "boolean": st.booleans(),
        "int": st.integers(-(2**31), 2**31 - 1),
        "long": st.integers(-(2**63), 2**63 - 1),
        "float": st.floats(width=32, allow_nan=False),
        "double": st.floats(allow_nan=False),
        "bytes": st.binary(max_size=20),
        "string": st.text(max_size=20),
    }[kind]


def _number_bytes(number: int) -> bytes:
    return number.to_bytes(8, "big", signed=True)


def without_logical(schema: Any) -> Any:
    """fastavro then writes and reads what lies below."""
    if isinstance(schema, list):
        return [without_logical(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "logicalType" in schema and schema["type"] != "fixed":
        return schema["type"]
    return {
        key: [{**each, "type": without_logical(each["type"])} for each in value]
        if key == "fields"
        else without_logical(value)
        if key in ("items", "values")
        else value
        for key, value in schema.items()
    }


def parsed(schema: Any) -> Any:
    return fastavro.parse_schema(json.loads(json.dumps(without_logical(schema))))


def write(schema: Any, datum: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, parsed(schema), datum)
    return out.getvalue()


def read(payload: bytes, writer: Any, reader: Any | None = None) -> Any:
    found: Any = fastavro.schemaless_reader(
        io.BytesIO(payload),
        parsed(writer),
        None if reader is None else parsed(reader),
        return_named_type=False,
    )
    return found


def expected(datum: Any, schema: Any) -> Any:
    """What `to_pylist` gives for a datum that fastavro has read."""
    if isinstance(schema, list):
        return _of_union(datum, schema)
    match schema:
        case {"logicalType": "date"}:
            return date.fromordinal(date(1970, 1, 1).toordinal() + datum)
        case {"logicalType": "timestamp-millis"}:
            return EPOCH + timedelta(milliseconds=datum)
        case {"logicalType": "timestamp-micros"}:
            return EPOCH + timedelta(microseconds=datum)
        case {"logicalType": "decimal"}:
            return Decimal(int.from_bytes(datum, "big", signed=True)).scaleb(-schema["scale"])
        case {"type": "record", "fields": fields}:
            return {each["name"]: expected(datum[each["name"]], each["type"]) for each in fields}
        case {"type": "array", "items": items}:
            return [expected(each, items) for each in datum]
        case {"type": "map", "values": values}:
            return [(key, expected(each, values)) for key, each in datum.items()]
        case _:
            return datum


def _of_union(datum: Any, branches: list[Any]) -> Any:
    others = [each for each in branches if each != "null"]
    if datum is None and "null" in branches:
        return None
    if len(others) == 1:
        return expected(datum, others[0])
    if set(map(str, others)) == {"int", "long"}:
        return datum
    kinds = {"string": str, "long": int, "int": int, "boolean": bool}
    members = [datum if type(datum) is kinds[each] else None for each in others]
    return {f"member{index}": each for index, each in enumerate(members)}
