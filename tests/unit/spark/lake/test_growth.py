"""Which columns a table gets from what is found."""

import pyarrow as pa

from goqueue.spark.lake.growth import COLUMNS_MAX, grow, objections, unite, widen


def schema(**fields) -> pa.Schema:
    return pa.schema(list(fields.items()))


def struct(**fields) -> pa.DataType:
    return pa.struct(list(fields.items()))


def test_new_fields_follow_the_known_ones_and_types_stay():
    growth = grow(schema(b=pa.int64()), [schema(a=pa.string(), b=pa.int64())])
    assert growth.schema.equals(schema(b=pa.int64(), a=pa.string()))
    assert growth.refused == {}


def test_fields_inside_fields_are_added_too():
    known = schema(o=struct(x=pa.int64()), many=pa.list_(struct(x=pa.int64())))
    found = schema(
        o=struct(x=pa.int64(), y=pa.string()), many=pa.list_(struct(x=pa.int64(), y=pa.bool_()))
    )
    assert grow(known, [found]).schema.equals(found)


def test_whole_numbers_and_fractions_are_fractions_in_any_order():
    whole, fraction = schema(n=pa.int64()), schema(n=pa.float64())
    assert unite([whole, fraction]).equals(fraction)
    assert unite([fraction, whole]).equals(fraction)


def test_otherwise_the_first_type_wins():
    assert unite([schema(n=pa.int64()), schema(n=pa.string())]).equals(schema(n=pa.int64()))


def test_a_type_that_says_nothing_gives_way():
    nothing = schema(a=pa.null(), b=pa.list_(pa.null()), c=pa.struct([]))
    something = schema(a=pa.int64(), b=pa.list_(pa.string()), c=struct(x=pa.int64()))
    assert grow(pa.schema([]), [nothing]).schema.names == []
    assert grow(pa.schema([]), [nothing, something]).schema.equals(something)


def test_times_stay_text():
    found = schema(at=pa.timestamp("s"), all=pa.list_(pa.timestamp("s")))
    expected = schema(at=pa.string(), all=pa.list_(pa.string()))
    assert grow(pa.schema([]), [found]).schema.equals(expected)


def test_what_cannot_be_a_column_is_refused_with_a_reason():
    known = schema(id=pa.int64())
    found = schema(
        **{
            "ID": pa.int64(),
            "a b": pa.int64(),
            "record_offset": pa.int64(),
            "twins": struct(x=pa.int64(), X=pa.int64()),
            "fine": pa.int64(),
        }
    )
    growth = grow(known, [found], reserved_prefix="record_")
    assert growth.schema.names == ["id", "fine"]
    assert set(growth.refused) == {"ID", "a b", "record_offset", "twins"}
    assert "'id'" in growth.refused["ID"]


def test_a_table_does_not_grow_without_end():
    found = pa.schema([(f"key-{n}", pa.int64()) for n in range(COLUMNS_MAX + 5)])
    growth = grow(pa.schema([]), [found])
    assert len(growth.schema) == COLUMNS_MAX
    assert len(growth.refused) == 5
    assert str(COLUMNS_MAX) in next(iter(growth.refused.values()))


def test_depth_has_an_end():
    kind: pa.DataType = pa.int64()
    for _ in range(20):
        kind = pa.list_(kind)
    assert "deep" in grow(pa.schema([]), [pa.schema([("a", kind)])]).refused["a"]


def test_declared_fields_may_be_what_json_can_hold():
    fine = schema(
        a=pa.int64(),
        b=pa.decimal128(10, 2),
        c=pa.timestamp("us", "UTC"),
        d=pa.list_(struct(x=pa.string())),
    )
    assert objections(fine) == {}
    wrong = schema(a=pa.date32(), b=struct(x=pa.map_(pa.string(), pa.int64())), record_c=pa.int64())
    assert set(objections(wrong, reserved_prefix="record_")) == {"a", "b", "record_c"}


def test_a_wider_schema_keeps_what_is_there():
    known = schema(a=pa.int64(), o=struct(x=pa.int64()))
    wanted = schema(o=struct(y=pa.string()), a=pa.string(), b=pa.bool_())
    assert widen(known, wanted).equals(
        schema(a=pa.int64(), o=struct(x=pa.int64(), y=pa.string()), b=pa.bool_())
    )
