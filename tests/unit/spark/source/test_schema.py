"""Which columns a reader is asked for."""

import pytest

from goqueue.spark.columns import COLUMN_TYPES
from goqueue.spark.source.options import source_options
from goqueue.spark.source.schema import WrongColumns, default_schema, wanted_columns
from goqueue.spark.topic_columns import RECORD_COLUMNS

GIVEN = {"bootstrap.servers": "b:1", "subscribe": "t"}


def schema(**given):
    return default_schema(source_options(GIVEN | given, is_stream=None))


def test_the_default_columns_are_kafkas():
    assert schema() == (
        "`key` binary, `value` binary, `topic` string, `partition` int, `offset` bigint,"
        " `timestamp` timestamp, `timestampType` int"
    )
    assert schema(includeHeaders="true").endswith(
        "`headers` array<struct<key:string,value:binary>>"
    )
    assert "`baseOffset` bigint" in schema(unit="batch")
    assert schema(unit="range").endswith("`startOffset` bigint, `endOffset` bigint")


def test_every_column_that_spark_may_ask_for_can_be_decoded():
    assert set(RECORD_COLUMNS) == set(COLUMN_TYPES)


def test_any_subset_in_any_order():
    assert wanted_columns([("offset", "bigint"), ("key", "binary")], "record") == ("offset", "key")


def test_columns_that_are_not_there_or_of_another_type_are_named():
    with pytest.raises(WrongColumns) as raised:
        wanted_columns([("values", "binary"), ("key", "string")], "record")
    assert "no column 'values'" in str(raised.value)
    assert "key is binary, not string" in str(raised.value)
    with pytest.raises(WrongColumns, match="no column 'offset'"):
        wanted_columns([("offset", "bigint")], "batch")
