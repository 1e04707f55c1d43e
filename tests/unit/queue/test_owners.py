"""The owner of reserved messages, as text."""

import pytest

from goqueue.model.markers import Marker
from goqueue.queue.owners import Owner, is_ended, read_owner


@pytest.mark.parametrize("text", ["tx", "", "1:x:tx", "1:2", ":::"])
def test_an_owner_of_a_former_version_is_a_transactional_id(text):
    assert read_owner(text) == (-1, -1, text)


def test_an_owner_is_read_as_it_was_written():
    assert read_owner(str(Owner(17, 3, "a:b\nc"))) == (17, 3, "a:b\nc")


@pytest.mark.parametrize(
    ("owner", "is_over"),
    [
        ("7:2:tx", True),
        ("7:3:tx", True),
        ("7:4:tx", False),
        ("8:3:tx", False),
        ("tx", False),
    ],
)
def test_a_marker_ends_what_its_producer_reserved_up_to_its_epoch(owner: str, is_over: bool):
    assert is_ended(owner, Marker(7, 3, coordinator_epoch=0, commits=True)) is is_over


def test_a_marker_with_a_new_epoch_leaves_that_epochs_transaction_alone():
    marker = Marker(7, 3, coordinator_epoch=0, commits=True, is_bumped=True)
    assert is_ended("7:2:tx", marker)
    assert not is_ended("7:3:tx", marker)
