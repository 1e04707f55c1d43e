"""Where references lead."""

from typing import Any

import pytest

from goqueue.schemas.errors import InvalidSchema
from goqueue.schemas.json.references import References

DOCUMENT: dict[str, Any] = {
    "$id": "https://example.com/root.json",
    "definitions": {"a/b": {"type": "string"}, "named": {"$id": "#here", "type": "null"}},
    "$defs": {"inner": {"$id": "inner.json", "$anchor": "there", "items": {"$ref": "#there"}}},
    "list": [{"const": 1}],
}


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("#", DOCUMENT),
        ("root.json", DOCUMENT),
        ("https://example.com/root.json#", DOCUMENT),
        ("#/definitions/a~1b", DOCUMENT["definitions"]["a/b"]),
        ("#here", DOCUMENT["definitions"]["named"]),
        ("inner.json", DOCUMENT["$defs"]["inner"]),
        ("inner.json#there", DOCUMENT["$defs"]["inner"]),
        ("#/list/0", {"const": 1}),
        ("other.json", {"const": 2}),
    ],
)
def test_a_reference_is_found(reference: str, expected: Any):
    named = {"https://example.com/other.json": {"const": 2}}
    assert References(DOCUMENT, named).resolve(DOCUMENT, reference) == expected


def test_a_reference_inside_a_resource_is_relative_to_it():
    references = References(DOCUMENT, {})
    items = DOCUMENT["$defs"]["inner"]["items"]
    assert references.resolve(items, "#there") is DOCUMENT["$defs"]["inner"]


@pytest.mark.parametrize("reference", ["#/nowhere", "#/list/7", "#nowhere", "http://x/y"])
def test_a_reference_that_leads_nowhere_is_refused(reference: str):
    with pytest.raises(InvalidSchema):
        References(DOCUMENT, {}).resolve(DOCUMENT, reference)
