"""Who holds how many messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.ids import Timestamp
from goqueue.queue.lease import Lease, LeaseBook

CONSUMERS = st.sampled_from(["ann", "bob"])


def test_a_lease_remembers_the_time_that_was_given():
    lease = Lease(7, "ann", Timestamp(1_000), Timestamp(31_000))
    assert (lease.lease_id, lease.consumer) == (7, "ann")
    assert (lease.delivered_at, lease.deadline, lease.visibility_ms) == (1_000, 31_000, 30_000)
    assert (lease.transactional_id, lease.ranges, lease.remaining) == ("", (), 0)


@given(st.lists(st.tuples(CONSUMERS, st.integers(1, 5)), max_size=20))
def test_what_was_taken_and_given_back_leaves_nothing(taken: list[tuple[str, int]]):
    book = LeaseBook()
    for consumer, count in taken:
        book.add(consumer, count)
    assert book.in_flight == sum(book.consumers.values()) == sum(count for _, count in taken)
    for consumer, count in reversed(taken):
        book.remove(consumer, count)
        assert book.in_flight == sum(book.consumers.values())
    assert book.consumers == {}


def test_a_consumer_that_holds_some_stays():
    book = LeaseBook()
    book.add("ann", 3)
    book.remove("ann", 2)
    assert book.consumers == {"ann": 1}
    with pytest.raises(AssertionError):
        book.remove("ann", 2)
