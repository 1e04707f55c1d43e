"""The bytes that classic consumers put inside JoinGroup and SyncGroup."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.groups.embedded import (
    read_assignment,
    read_subscription,
    write_assignment,
)
from goqueue.groups.errors import InconsistentGroupProtocol
from tests.unit.groups.harness import write_subscription

NAMES = st.text(min_size=1, max_size=8).filter(lambda text: text.isprintable())
PARTITIONS = st.dictionaries(NAMES, st.sets(st.integers(0, 99), max_size=4), max_size=4)
SUBSCRIPTION = write_subscription(["orders", "bills"], {"orders": [1, 0]})


def as_read(partitions: dict[str, set[int]]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(sorted(numbers)) for name, numbers in partitions.items()}


@given(st.sets(NAMES, max_size=4), PARTITIONS)
def test_a_subscription_is_read_as_it_was_written(topics: set[str], owned: dict[str, set[int]]):
    data = write_subscription(sorted(topics), {name: sorted(each) for name, each in owned.items()})
    found = read_subscription(data)
    assert (found.version, found.topics) == (1, tuple(sorted(topics)))
    assert found.owned == as_read(owned)
    assert (found.generation, found.rack_id) == (-1, None)


@given(PARTITIONS, st.integers(0, 3))
def test_an_assignment_is_read_as_it_was_written(assigned: dict[str, set[int]], version: int):
    data = write_assignment({name: sorted(each) for name, each in assigned.items()}, version)
    assert int.from_bytes(data[:2]) == version
    assert read_assignment(data) == as_read(assigned)


def test_no_bytes_are_no_assignment():
    assert read_assignment(b"") == {}


@pytest.mark.parametrize(
    ("version", "owned", "generation", "rack_id"),
    [(0, 0, -1, None), (1, 1, -1, None), (2, 1, 9, None), (3, 1, 9, "r"), (7, 1, 9, "r")],
)
def test_each_version_has_more_to_say(version: int, owned: int, generation: int, rack_id: object):
    newest = SUBSCRIPTION[2:] + struct.pack(">ih", 9, 1) + b"r" + b"what version 4 may add"
    found = read_subscription(struct.pack(">h", version) + newest)
    assert found.version == min(version, 3)
    assert found.topics == ("bills", "orders")
    assert (len(found.owned), found.generation, found.rack_id) == (owned, generation, rack_id)


def test_data_of_a_users_own_assignor_is_skipped():
    with_user_data = SUBSCRIPTION.replace(b"\xff" * 4, struct.pack(">i", 3) + b"own", 1)
    assert read_subscription(with_user_data) == read_subscription(SUBSCRIPTION)


@pytest.mark.parametrize("size", range(len(SUBSCRIPTION)))
def test_a_subscription_that_is_cut_off_is_refused(size: int):
    with pytest.raises(InconsistentGroupProtocol):
        read_subscription(SUBSCRIPTION[:size])


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (struct.pack(">i", -1), "array of -1 items"),
        (struct.pack(">i", 2**31 - 1), "array of 2147483647 items"),
        (struct.pack(">ih", 1, -1), "is null"),
        (struct.pack(">ih", 1, 1) + b"\xff", "not UTF-8"),
    ],
)
def test_bytes_of_another_shape_are_refused(body: bytes, problem: str):
    with pytest.raises(InconsistentGroupProtocol, match=problem):
        read_subscription(struct.pack(">h", 0) + body)
