"""Which columns are taken, and what is said about others."""

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from goqueue.spark.sink.schema import COLUMNS, schema_problems

STRING, BINARY, INT, LONG = StringType(), BinaryType(), IntegerType(), LongType()
DOUBLE, TIMESTAMP = DoubleType(), TimestampType()


def headers(key: str = "key", value: DataType = BINARY) -> ArrayType:
    return ArrayType(StructType([StructField(key, STRING), StructField("value", value)]))


def problems_of(*columns: tuple[str, DataType], has_topic: bool = True) -> list[str]:
    fields = [StructField(name, kind) for name, kind in columns]
    return schema_problems(StructType(fields), has_topic=has_topic)


def test_a_value_will_do():
    assert problems_of(("value", STRING)) == []
    assert problems_of(("value", BINARY)) == []


def test_everything_may_be_there():
    everything = {
        "value": BINARY,
        "key": STRING,
        "topic": STRING,
        "partition": INT,
        "headers": headers(),
        "timestamp": TIMESTAMP,
        "priority": STRING,
        "deliver_at": TIMESTAMP,
    }
    assert everything.keys() == COLUMNS.keys()
    assert problems_of(*everything.items(), has_topic=False) == []
    assert problems_of(*(everything | {"priority": INT}).items()) == []


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("key", LONG, "'key' is bigint, wanted is string or binary"),
        ("topic", BINARY, "'topic' is binary"),
        ("partition", STRING, "cast it to int"),
        ("headers", MapType(STRING, BINARY), "array<struct<key: string, value: binary>>"),
        ("headers", headers(key="k"), "'headers'"),
        ("headers", headers(value=STRING), "'headers'"),
        ("timestamp", LONG, "'timestamp' is bigint"),
        ("timestamp", TimestampNTZType(), "'timestamp' is timestamp_ntz"),
        ("priority", DOUBLE, "'priority' is double"),
        ("deliver_at", DOUBLE, "'deliver_at' is double"),
        ("Key", STRING, "did you mean 'key'"),
        ("header", headers(), "did you mean 'headers'"),
        ("time_stamp", TIMESTAMP, "did you mean 'timestamp'"),
        ("value", STRING, "there twice"),
    ],
)
def test_what_cannot_be_written_is_refused_with_a_remedy(name: str, kind: DataType, said: str):
    (problem,) = problems_of(("value", STRING), (name, kind))
    assert said in problem


@pytest.mark.parametrize("name", ["amount", "ts", "offset", "timestampType", "price"])
def test_columns_that_kafkas_connector_ignores_are_ignored(name: str):
    assert problems_of(("value", STRING), (name, DOUBLE)) == []


def test_a_value_has_to_be_there_and_be_bytes():
    (problem,) = problems_of(("key", STRING))
    assert "no column 'value'" in problem
    (problem,) = problems_of(("value", INT))
    assert "'value' is int" in problem


def test_somebody_has_to_name_the_topic():
    (problem,) = problems_of(("value", STRING), has_topic=False)
    assert "which topic?" in problem


def test_all_problems_are_said_at_once():
    wrong = [("timestmp", TIMESTAMP), ("key", INT), ("Partition", INT)]
    assert len(problems_of(*wrong, has_topic=False)) == 5
