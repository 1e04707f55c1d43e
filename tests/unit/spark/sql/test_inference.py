"""Columns from a look at JSON values."""

import msgspec
import pytest

from goqueue.spark.sql.inference import columns_of


def columns(*values: object) -> str | None:
    return columns_of(msgspec.json.encode(each) for each in values)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([{"id": 1, "name": "a", "ok": True, "x": 1.5}],
         "`id` bigint, `name` string, `ok` boolean, `x` double"),
        ([{"a": 1}, {"b": 2}, {"a": 3}], "`a` bigint, `b` bigint"),
        ([{"a": 1}, {"a": 2.5}], "`a` double"),
        ([{"a": 2**63}, {"a": 1}], "`a` decimal(38,0)"),
        ([{"a": None}, {"a": 1}, {"a": None}], "`a` bigint"),
        ([{"a": None}], "`a` string"),
        ([{"a": 1}, {"a": "x"}], "`a` string"),
        ([{"a": {"b": 1}}, {"a": {"c": "x"}}], "`a` struct<`b`: bigint, `c`: string>"),
        ([{"a": {"b": 1}}, {"a": 5}], "`a` string"),
        ([{"a": {}}], "`a` string"),
        ([{"a": []}], "`a` array<string>"),
        ([{"a": [1, 2.5]}, {"a": []}], "`a` array<double>"),
        ([{"a": [{"b": 1}, {"c": 2}]}], "`a` array<struct<`b`: bigint, `c`: bigint>>"),
        ([{"id": 1, "Id": "x"}], "`id` bigint"),
        ([{"odd `name`": 1, "a.b": 2}], "`odd ``name``` bigint, `a.b` bigint"),
        ([{"_key": 1, "a": 2}], "`a` bigint"),
        ([{"at": "2026-01-31T12:00:00Z"}], "`at` string"),
        ([{}], None),
        (["text"], None),
        ([1, 2], None),
        ([[1]], None),
        ([{"a": 1}, "x"], "`a` bigint"),
        ([{"a": 1}, "x", "y"], None),
        ([], None),
    ],
)  # fmt: skip
def test_columns(values: list[object], expected: str | None):
    assert columns(*values) == expected


def test_values_that_are_not_json_and_nulls():
    assert columns_of([None, b'{"a": 1}', b"\xff"]) == "`a` bigint"
    assert columns_of([None, b"plain", b'{"a"']) is None


def test_deep_values_end_somewhere():
    value: object = 1
    for _ in range(50):
        value = {"a": value}
    found = columns(value)
    assert found is not None
    assert found.count("struct") == 7
    assert columns_of([b"[" * 100_000, b'{"a":' * 100_000]) is None


def test_wide_values_end_somewhere():
    found = columns({f"c{each}": each for each in range(2000)})
    assert found is not None
    assert found.count("bigint") == 500
