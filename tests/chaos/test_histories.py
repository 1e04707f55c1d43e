"""The checkers of the chaos campaigns find what they are there for, and nothing else."""

import pytest

from tests.chaos.load.groups import GroupHistory, OffsetFact
from tests.chaos.load.queues import Held, QueueHistory

PLACE = 0, 7
NEVER = float("inf")


def held(attempt: int, asked_at: float, *, settled: float = NEVER, acked: float = NEVER) -> Held:
    return Held(PLACE, attempt, f"worker {attempt}", asked_at, asked_at + 0.1, settled, acked)


def history(*deliveries: Held) -> QueueHistory:
    return QueueHistory({PLACE: 1}, values={PLACE: 1}, held=list(deliveries))


def test_a_queue_that_works_has_no_anomalies():
    acked_late = held(3, 20.0, settled=21.0, acked=21.1)
    assert history(held(1, 1.0), held(2, 10.0, settled=11.0), acked_late).anomalies(6.0) == []


@pytest.mark.parametrize(
    ("deliveries", "found"),
    [
        ([held(1, 1.0, settled=2.0)], "is lost"),
        ([held(1, 1.0, settled=2.0, acked=2.1), held(2, 5.0)], "delivered after the ack"),
        (
            [held(1, 1.0, settled=9.0, acked=9.1), held(2, 8.0, settled=9.0, acked=9.1)],
            "double ack",
        ),
        ([held(2, 1.0, settled=2.0), held(1, 5.0, settled=6.0, acked=6.1)], "came after attempt"),
        ([held(1, 1.0), held(2, 3.0, settled=4.0, acked=4.1)], "has it too"),
    ],
)
def test_each_anomaly_of_a_queue_is_found(deliveries: list[Held], found: str):
    assert any(found in each for each in history(*deliveries).anomalies(6.0))


def test_a_committed_offset_that_goes_back_is_found():
    told = GroupHistory("g", [OffsetFact(0, 9, 1.0, 1.1, "a"), OffsetFact(0, 12, 2.0, 2.1, "a")])
    assert told.anomalies() == []
    told.facts.append(OffsetFact(0, 9, 2.05, 2.2, "b"))
    assert told.anomalies() == [], "it was asked for before the higher one was known"
    told.facts.append(OffsetFact(0, 9, 3.0, 3.1, "b"))
    assert len(told.anomalies()) == 1


def test_a_message_that_no_member_saw_is_found():
    told = GroupHistory("g")
    told.seen[0] |= {0, 1, 3}
    assert told.unseen([{0: 10, 1: 11, 2: 12, 3: 13}]) == [(0, 2)]
