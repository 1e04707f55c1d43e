from typing import Any

import pytest

from goqueue.trace.blocks import encode_block, read_head
from goqueue.trace.events import Step
from goqueue.trace.lookup import Lookup
from goqueue.trace.selection import TraceQuery
from tests.unit.trace.trace_events import DEAD, at, event

LINK: dict[str, Any] = {"link_topic_id": DEAD, "link_partition": 0, "link_first": 7}
EVENTS = [
    event(100, Step.PUBLISHED, 0, 9),
    event(200, Step.DLQ_ROUTED, 3, **LINK),
    event(300, Step.GROUP_REBALANCED, -1, group="g"),
    event(400, Step.TRACE_LINKED, 5, detail=f"{'4b' * 16}-{'00f0' * 4}"),
    event(500, Step.PUBLISH_REJECTED, -1),
]


@pytest.mark.parametrize(
    ("lookup", "found"),
    [
        (Lookup(places=[at(3)]), [0, 1]),
        (Lookup(places=[at(7, DEAD)]), [1]),
        (Lookup(places=[at(99)]), []),
        (Lookup(groups=["g"], start_us=300), [2]),
        (Lookup(groups=["g"], end_us=299), []),
        (Lookup(trace_id="4b" * 16), [3]),
        (Lookup(trace_id="4c" * 16), []),
        (Lookup(refused=EVENTS[4].key), [4]),
        (Lookup(query=TraceQuery(topic="orders", start_us=150)), [1, 2, 3, 4]),
    ],
)
def test_events_and_blocks_answer_the_same_question(lookup: Lookup, found: list[int]):
    assert lookup.pick(EVENTS) == [EVENTS[index] for index in found]
    if found:
        assert lookup.may_match(read_head(encode_block(EVENTS)))


def test_a_block_that_cannot_have_it_is_not_unfolded():
    head = read_head(encode_block(EVENTS))
    assert not Lookup(places=[at(99)]).may_match(head)
    assert not Lookup(trace_id="4c" * 16).may_match(head)
    assert not Lookup(groups=["other"]).may_match(head)
    assert not Lookup(query=TraceQuery(), start_us=501).may_match(head)
