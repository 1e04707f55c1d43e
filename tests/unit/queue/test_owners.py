"""The owner of reserved messages, as text."""

import pytest

from goqueue.queue.owners import Owner, read_owner


@pytest.mark.parametrize("text", ["tx", "", "1:x:tx", "1:2", ":::"])
def test_an_owner_of_a_former_version_is_a_transactional_id(text):
    assert read_owner(text) == (-1, -1, text)


def test_an_owner_is_read_as_it_was_written():
    assert read_owner(str(Owner(17, 3, "a:b\nc"))) == (17, 3, "a:b\nc")
