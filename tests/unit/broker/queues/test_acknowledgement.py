"""How callers end deliveries: what is refused at once, and what they hear."""

import pytest

from goqueue.broker.queues.acknowledgement import (
    DELAY_MS_MAX,
    Ack,
    Ending,
    Extend,
    Nack,
    Reject,
    Release,
    check,
)
from goqueue.model.errors import InvalidRequest
from goqueue.model.limits import VISIBILITY_MS_MAX
from goqueue.queue import QueueSettings, ReceiptMalformed, Settled
from tests import queue_verbs
from tests.unit.broker.queue_world import Bench, numbered, play


@pytest.mark.parametrize(
    "ending",
    [
        Ack(),
        Reject("broken"),
        Nack(),
        Nack(0),
        Nack(DELAY_MS_MAX),
        Release(),
        Release(DELAY_MS_MAX),
        Extend(1),
        Extend(VISIBILITY_MS_MAX),
    ],
)
def test_an_ending_within_its_limits(ending: Ending):
    check(ending)


@pytest.mark.parametrize(
    "ending",
    [
        Nack(-1),
        Nack(DELAY_MS_MAX + 1),
        Release(-1),
        Release(DELAY_MS_MAX + 1),
        Extend(0),
        Extend(VISIBILITY_MS_MAX + 1),
    ],
)
def test_an_ending_beyond_its_limits(ending: Ending):
    with pytest.raises(InvalidRequest, match="must be"):
        check(ending)


def test_outcomes_come_in_the_order_of_the_request():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(3))
        first, second, third = await bench.receive(max_messages=3)
        outcomes = await queue_verbs.ack(bench.queues, [third.receipt, "no receipt", first.receipt])
        late, malformed, early = outcomes
        assert isinstance(late, Settled)
        assert isinstance(early, Settled)
        assert isinstance(malformed, ReceiptMalformed)
        assert (late.offset, early.offset) == (2, 0)
        assert late.floor == early.floor == 1, "of all that the request ended"
        assert late.in_flight == early.in_flight == 1
        assert second.record.offset == 1

    play(scenario)


def test_callers_hear_where_a_dead_message_went():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(3))
        rejected, failed, back = await bench.receive(max_messages=3)
        (dead,) = await queue_verbs.reject(bench.queues, [rejected.receipt], reason="broken")
        (also_dead,) = await queue_verbs.nack(bench.queues, [failed.receipt])
        (waits,) = await bench.queues.release([back.receipt])
        assert isinstance(dead, Settled)
        assert isinstance(also_dead, Settled)
        assert isinstance(waits, Settled)
        assert (dead.action, dead.dlq_topic) == ("rejected", "jobs.dlq")
        assert (also_dead.action, also_dead.dlq_topic) == ("dead", "jobs.dlq")
        assert waits.dlq_topic is None

    play(scenario, settings=QueueSettings(max_failures=1))
