"""Names of subjects."""

import pytest

from goqueue.schemas import Mode, context_of, read_mode, subject_name
from goqueue.schemas.errors import InvalidMode, InvalidSubject


def test_a_subject_may_have_any_printable_name():
    assert subject_name("orders-value") == "orders-value"
    assert subject_name("../x") == "../x"  # it is no file name anywhere
    assert subject_name(":.:orders") == "orders"
    assert subject_name(":.ctx:orders") == ":.ctx:orders"
    for bad in ("", " x", "a\nb", "x" * 600):
        with pytest.raises(InvalidSubject):
            subject_name(bad)


def test_contexts_and_modes():
    assert context_of("orders") == "."
    assert context_of(":.ctx:orders") == ".ctx"
    assert read_mode("readonly") is Mode.READONLY
    with pytest.raises(InvalidMode):
        read_mode("x")
