"""Snapshots of queues that are read piece by piece while messages come and go."""

import functools
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.ids import GroupId, Offset, Timestamp, TopicId
from goqueue.model.markers import Marker
from goqueue.queue import QueueMachine, QueueSettings, snapshot
from goqueue.queue.delivery import Selection
from goqueue.queue.lanes import NORMAL
from goqueue.queue.records import MessagesSnapshot, Move
from tests.unit.model.snapshot_checks import check_sliced_snapshot
from tests.unit.queue.harness import (
    GROUP,
    TOPIC,
    TOPIC_ID,
    Bench,
    _record,
    new_machine,
    picture,
)

KEYS = 3


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "PART_ENTRIES_MAX", 2)


class KeyedBench(Bench):
    """Messages of a key are handed out one at a time, in order; the key of an offset is given."""

    def choose(self, count: int) -> Selection:
        selection = Selection(self.state)
        for offset in self.state.take_ready(NORMAL, count, self.now):
            selection.add_again(_record(offset), NORMAL)
        cursor = selection.cursors[NORMAL]
        while len(selection.chosen) < count and cursor < len(self.lanes):
            key = cursor % KEYS
            if key in selection.keys or key in self.state.busy:
                selection.deferred.append((cursor, NORMAL, key))
            else:
                selection.keys[key] = cursor
                selection.add_fresh(_record(cursor), NORMAL)
            cursor += 1
        selection.cursors = [cursor] * len(selection.cursors)
        return selection


actions = st.sampled_from(["hand", "hand", "ack", "ack", "nack", "reject", "pass", "back", "bury"])


@given(st.lists(actions, max_size=40), st.floats(0, 1), st.lists(st.integers(0, 3), max_size=5))
def test_messages_of_a_key_stay_in_order(asked: list[str], share: float, steps: list[int]) -> None:
    bench = KeyedBench(QueueSettings(visibility_ms=1_000, max_failures=2, backoff_base_ms=100))
    bench.publish([NORMAL] * 30)
    receipts: list[str] = []
    for action in asked:
        match action:
            case "hand":
                receipts += bench.lease("ann", 4)
            case "ack":
                bench.ack(receipts[:2])
                del receipts[:2]
            case "nack":
                bench.nack(receipts[:1], delay_ms=50)
            case "reject":
                bench.reject(receipts[:1])
            case "pass":
                bench.pass_time(400)
            case "back":
                floor = Offset(max(0, bench.state.ack_floor - 2))
                bench.submit(
                    functools.partial(QueueMachine.move_ack_floor, group_id=GROUP, floor=floor)
                )
            case _:
                bench.dead_letter()
    begins_at = int(share * len(bench.log))
    check_sliced_snapshot(new_machine, bench.log, picture, begins_at=begins_at, steps=steps)


def many_states() -> Bench:
    """Two groups, dead letters on either side: whatever a record may change."""
    bench = Bench()
    other = GroupId("others")
    bench.submit(lambda machine: machine.open(bench.now, other, TOPIC_ID, Offset(0)))
    bench.publish([NORMAL] * 40)
    receipts = bench.lease("ann", 20)
    bench.nack(receipts[:3], delay_ms=1_000)
    bench.reject(receipts[3:5])
    bench.dead_letter()
    bench.reject(receipts[5:6])
    bench.reserve_for_transaction(receipts[6:9], "1:0:tx")
    return bench


MOVE = Move(((0, 0),), TOPIC, TOPIC_ID, 0, 1, 0, Offset(0))
LATER = Timestamp(10_000_000)
FOLLOWERS: dict[str, Callable[[QueueMachine], Any]] = {
    "resume": lambda m: m.resume(LATER, skips_leases=True),
    "a log is shortened": lambda m: m.shorten_log(TOPIC_ID, Offset(4)),
    "a floor is moved": lambda m: m.move_ack_floor(GROUP, Offset(8)),
    "a floor is moved back": lambda m: m.move_ack_floor(GROUP, Offset(1)),
    "a group begins again": lambda m: m.open(LATER, GROUP, TopicId(UUID(int=9)), Offset(3)),
    "a group is forgotten": lambda m: m.forget_group(GROUP),
    "a group begins": lambda m: m.open(LATER, GroupId("new"), TOPIC_ID, Offset(0)),
    "letters are moved": lambda m: m.start_redrive((MOVE,)),
    "letters are taken": lambda m: m.remove_dead_letters(((0, 0),), Offset(0)),
    "a transaction commits": lambda m: m.end_transaction(LATER, Marker(1, 0, 0, commits=True)),
    "a transaction aborts": lambda m: m.end_transaction(LATER, Marker(1, 0, 0, commits=False)),
    "a consumer is gone": lambda m: m.release_consumer(LATER, GROUP, "ann", failed=True),
    "time passes": lambda m: m.on_deadline(LATER),
}


@pytest.mark.parametrize("read", [0, 1, 4, 7, 9])
@pytest.mark.parametrize("follower", FOLLOWERS)
def test_a_snapshot_is_of_its_moment_whatever_follows(follower: str, read: int) -> None:
    bench = many_states()
    begins_at = len(bench.log)
    bench.submit(FOLLOWERS[follower])
    assert len(bench.log) > begins_at
    steps = [read, *[0] * 10]
    check_sliced_snapshot(new_machine, bench.log, picture, begins_at=begins_at, steps=steps)


def test_no_piece_of_a_snapshot_is_long() -> None:
    bench = Bench(QueueSettings(visibility_ms=1_000))
    bench.publish([NORMAL] * 1_000)
    bench.nack(bench.lease("ann", 500))
    for _ in range(100):
        bench.lease("bob", 3)
    parts = [each for each in bench.machine.snapshot() if isinstance(each, MessagesSnapshot)]
    for part in parts:
        assert len(part.leases) + len(part.waiting) + len(part.history) <= 4, "two messages"
    assert picture(bench.replay_snapshot()) == picture(bench.machine)
