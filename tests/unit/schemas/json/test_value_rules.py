"""Values that an enum allows are compared as JSON Schema compares them, many of them at once."""

from typing import Any

import pytest

from goqueue.schemas.json.value_rules import compare_values


@pytest.mark.parametrize(
    ("before", "after", "rule"),
    [
        ([1, "a"], ["a", 1.0, None], None),
        ([True], [1], "ENUM_ARRAY_NARROWED"),
        ([{"a": 1, "b": 2}], [{"b": 2, "a": 1}], None),
        ([[1, 2]], [[2, 1]], "ENUM_ARRAY_NARROWED"),
        ([None, False], [False, None, 0], None),
    ],
)
def test_enums(before: list[Any], after: list[Any], rule: str | None):
    found = compare_values({"enum": before}, {"enum": after}, "#")
    assert [each.rule for each in found] == ([] if rule is None else [rule])


def test_an_enum_of_many_values_is_compared_in_one_pass():
    many = [f"v{number}" for number in range(19_000)]  # by pairs, that took four seconds
    assert compare_values({"enum": many}, {"enum": many[::-1]}, "#") == []
    (found,) = compare_values({"enum": many}, {"enum": many[1:]}, "#")
    assert (found.rule, found.path) == ("ENUM_ARRAY_NARROWED", "#/enum")
