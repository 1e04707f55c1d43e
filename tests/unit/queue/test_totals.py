"""What was done is counted under the name of how it ended."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.ids import Offset, Timestamp
from goqueue.queue.records import DeadMessage, Finished, MarkedDead, Returned
from goqueue.queue.replies import Totals
from goqueue.queue.totals import count_dead, count_finished, count_returned, sum_of
from tests.unit.queue.harness import WHERE

NUMBERS = [name for name in Totals.__struct_fields__ if name != "dead"]
MANY = st.builds(
    Totals,
    **{name: st.integers(0, 9) for name in NUMBERS},
    dead=st.dictionaries(st.sampled_from(["rejected", "expired"]), st.integers(0, 9)),
)


def count_fields(totals: Totals) -> dict[str, Any]:
    """What is not nothing."""
    return {name: value for name, value in msgspec.to_builtins(totals).items() if value}


@given(st.lists(MANY, max_size=4))
def test_a_sum_has_every_count(some: list[Totals]):
    found = sum_of(some)
    for name in NUMBERS:
        assert getattr(found, name) == sum(getattr(each, name) for each in some)
    for reason in ("rejected", "expired"):
        assert found.dead.get(reason, 0) == sum(each.dead.get(reason, 0) for each in some)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (Finished(WHERE, ((0, 4), (7, 7))), {"acked": 6}),
        (Finished(WHERE, ((0, 4),), is_ack=False), {"dropped": 5}),
        (Finished(WHERE, ((0, 4),), is_ack=False, expired=2), {"dropped": 5, "expired": 2}),
    ],
)
def test_finished_messages_were_acked_or_dropped(record: Finished, expected: dict[str, int]):
    totals = Totals()
    count_finished(totals, record)
    assert count_fields(totals) == expected


@pytest.mark.parametrize(
    ("cause", "name"),
    [
        ("nacked", "nacked"),
        ("released", "released"),
        ("timed_out", "timed_out"),
        ("lost", "timed_out"),
        ("expired", "timed_out"),
    ],
)
def test_a_delivery_that_ends_without_an_ack_counts_by_its_cause(cause: Any, name: str):
    returned, died = Totals(), Totals()
    count_returned(returned, Returned(WHERE, (3, 4), (0, 0), cause, Timestamp(0)))
    assert count_fields(returned) == {name: 2}
    count_dead(died, MarkedDead(WHERE, (dead("max_failures"),), cause))
    assert count_fields(died) == {name: 1, "dead": {"max_failures": 1}}


@pytest.mark.parametrize(
    ("cause", "counts"),
    [("rejected", {"rejected": 2}), ("outdated", {"expired": 2}), ("unreadable", {})],
)
def test_a_message_that_dies_otherwise_counts_by_its_reason(cause: Any, counts: dict[str, int]):
    totals = Totals()
    count_dead(totals, MarkedDead(WHERE, (dead("rejected"), dead("expired")), cause))
    assert count_fields(totals) == counts | {"dead": {"rejected": 1, "expired": 1}}


def dead(reason: Any) -> DeadMessage:
    now = Timestamp(0)
    return DeadMessage(Offset(3), reason, "", "ann", 1, 0, now, now, now)
