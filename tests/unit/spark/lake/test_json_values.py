"""JSON values as columns: which rows fit, and that neighbours do not matter."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.spark.lake import json_values
from goqueue.spark.lake.growth import grow
from goqueue.spark.lake.json_values import Decoded, decode

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("price", pa.float64()),
        ("name", pa.string()),
        ("place", pa.struct([("city", pa.string())])),
        ("tags", pa.list_(pa.string())),
    ]
)


def decoded(*values: bytes | None, schema: Any = SCHEMA) -> Decoded:
    return decode(pa.array(values, pa.binary()), schema, reserved_prefix="record_")


def pylist(found: Decoded) -> list[dict]:
    return pa.concat_tables(found.columns).to_pylist() if found.columns else []


def test_values_become_columns_in_their_order():
    values = [b'{"id": 1, "place": {"city": "x"}}', b' {"price": 2, "tags": ["a"]} ']
    found = decoded(*values)
    assert found.good == [0, 1]
    assert [row["id"] for row in pylist(found)] == [1, None]
    assert [row["price"] for row in pylist(found)] == [None, 2.0]
    assert pylist(found)[0]["place"] == {"city": "x"}
    assert pylist(found)[1]["tags"] == ["a"]


def test_a_deleted_value_is_a_row_of_nulls():
    found = decoded(None)
    assert found.good == [0]
    assert set(pylist(found)[0].values()) == {None}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "not JSON"),
        (b"hello", "not JSON"),
        (b'{"id": 1', "not JSON"),
        (b'{"id": 1}{"id": 2}', "not JSON"),
        (b'{"id": NaN}', "not JSON"),
        (b'\xef\xbb\xbf{"id": 1}', "not JSON"),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "not JSON"),
        (b'{"name": "\xff"}', "not UTF-8"),
        (b"[1]", "not a JSON object"),
        (b"7", "not a JSON object"),
        (b'{"id": 1.5}', "id: "),
        (b'{"id": 9223372036854775808}', "id: "),
        (b'{"id": "1"}', "/id"),
        (b'{"place": {"city": 7}}', "/place/city"),
        (b'{"tags": [1]}', "/tags"),
        (b'{"id": 1, "id": 2}', "twice"),
        (b'{"record_offset": 1}', "record_offset"),
        (b'{"a b": 1}', "a b"),
        (b'{"place": {"City": "x"}}', "place.City"),
    ],
)
def test_a_bad_row_is_set_apart_with_its_reason(value: bytes, reason: str):
    found = decoded(b'{"id": 1}', value, b'{"id": 3}')
    assert found.good == [0, 2]
    assert [row["id"] for row in pylist(found)] == [1, 3]
    [(index, text)] = found.bad
    assert index == 1
    assert reason in text
    assert found.found == []


def test_new_fields_are_reported_and_known_after_growth():
    values = [b'{"id": 1, "colour": "red"}', b'{"id": 2, "place": {"zip": 7}}']
    first = decoded(*values)
    assert first.found
    growth = grow(SCHEMA, first.found)
    second = decoded(*values, schema=growth.schema)
    assert second.found == []
    assert [row["colour"] for row in pylist(second)] == ["red", None]
    assert pylist(second)[1]["place"] == {"city": None, "zip": 7}


def test_fields_that_say_nothing_yet_need_no_column():
    found = decoded(b'{"id": 1, "later": null}', b'{"id": 2, "later": [], "more": {}}')
    assert found.found == []
    assert found.good == [0, 1]
    assert pa.concat_tables(found.columns).schema.equals(SCHEMA)


def test_large_batches_are_parsed_in_chunks(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(json_values, "CHUNK_BYTES_MAX", 50)
    found = decoded(*(b'{"id": %d}' % n for n in range(100)))
    assert len(found.columns) > 10
    assert [row["id"] for row in pylist(found)] == list(range(100))


numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(alphabet=st.characters(codec="utf-8"), max_size=5)
leaves = st.none() | st.booleans() | numbers | texts
anything = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from([*SCHEMA.names, "later"])
objects = st.dictionaries(names, anything, max_size=4)
values = st.one_of(
    objects.map(lambda value: json.dumps(value).encode()),
    anything.map(lambda value: json.dumps(value).encode()),
    st.binary(max_size=8),
    st.none(),
)


@given(st.lists(values, max_size=12))
def test_neighbours_do_not_matter(given_values: list[bytes | None]):
    """Together and one by one, each row gets the same columns, or the same verdict."""
    schema = SCHEMA
    while (together := decoded(*given_values, schema=schema)).found:
        schema = grow(schema, together.found[:1], reserved_prefix="record_").schema
    rows = dict(zip(together.good, pylist(together), strict=True))
    bad = dict(together.bad)
    for index, value in enumerate(given_values):
        alone = decoded(value, schema=schema)
        assert alone.found == []
        assert ([rows[index]] if index in rows else []) == pylist(alone)
        assert ([(0, bad[index])] if index in bad else []) == alone.bad
