"""A broker in simulated time whose journeys are looked at."""

from goqueue.broker.traces.requester import Requester, requester
from goqueue.broker.traces.service import FoundJourney, Traces
from goqueue.trace.events import TraceEvent
from goqueue.trace.journeys import Journey
from tests.unit.broker.queue_world import Bench, play

TOPIC = "jobs"
AROUND = frozenset({"group.rebalanced", "leader.changed"})


def ask_as(client: str, address: str = "10.0.0.1:4000") -> None:
    """What follows is asked by this client."""
    requester.set(Requester(address, client))


def ring(bench: Bench) -> list[TraceEvent]:
    return list(bench.broker.recorder.ring)


def names(journey: Journey) -> list[str]:
    return [step.event for step in journey.steps if step.event not in AROUND]


async def journey(bench: Bench, offset: int, topic: str = TOPIC) -> Journey:
    found: FoundJourney = await Traces(bench.broker).journey(topic, 0, offset)
    return found.journey


__all__ = ["TOPIC", "Bench", "ask_as", "journey", "names", "play", "ring"]
