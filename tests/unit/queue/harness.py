"""A queue machine as its host would run it, over a log that exists only as a list of lanes."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from goqueue.model.ids import GroupId, Offset, Timestamp, TopicId, TopicName
from goqueue.model.machine import Decision
from goqueue.model.record import Record
from goqueue.queue import QueueMachine, QueueSettings, Where
from goqueue.queue.delivery import Selection
from goqueue.queue.delivery_batch import singles
from goqueue.queue.lanes import LANES, NORMAL
from goqueue.queue.partition_state import PartitionState
from goqueue.queue.receipts import Claim, Claims, read_receipts, receipt
from goqueue.queue.records import QueueRecord

GROUP = GroupId("workers")
TOPIC = TopicName("jobs")
TOPIC_ID = TopicId(UUID(int=1))
WHERE = Where(GROUP, TOPIC, 0)


class Bench:
    """Applies what is decided and keeps it as bytes, so that it can be replayed."""

    def __init__(self, settings: QueueSettings | None = None) -> None:
        self.settings = settings or QueueSettings()
        self.machine = self._replayed([])
        self.log: list[bytes] = []
        self.lanes: list[int] = []  # of the messages that were published
        self.now = Timestamp(1_000_000)
        self.submit(lambda machine: machine.open(WHERE, TOPIC_ID, Offset(0)))

    # --- the host ---------------------------------------------------------------------------------

    def submit(self, decide: Callable[[QueueMachine], Decision[QueueRecord, Any]]) -> Any:
        decision = decide(self.machine)
        for record in decision.records:
            data = self.machine.encode(record)
            self.log.append(data)
            self.machine.apply(self.machine.decode(data))
        return decision.reply

    def replay(self) -> QueueMachine:
        """What a crash would leave."""
        return self._replayed(self.log)

    def replay_snapshot(self) -> QueueMachine:
        return self._replayed([self.machine.encode(each) for each in self.machine.snapshot()])

    def _replayed(self, log: list[bytes]) -> QueueMachine:
        machine = QueueMachine(lambda _: self.settings)
        for data in log:
            machine.apply(machine.decode(data))
        return machine

    @property
    def state(self) -> PartitionState:
        state = self.machine.state(WHERE)
        assert state is not None
        return state

    # --- the log ----------------------------------------------------------------------------------

    def publish(self, lanes: Sequence[int]) -> None:
        self.lanes += lanes

    def next_of_lane(self, lane: int, offset: int) -> int:
        for found in range(offset, len(self.lanes)):
            if self.lanes[found] == lane:
                return found
        return len(self.lanes)

    # --- verbs ------------------------------------------------------------------------------------

    def lease(self, consumer: str, count: int, visibility_ms: int | None = None) -> list[str]:
        """Choose in the order of lanes, what came back first; gives receipts."""
        selection = self.choose(count)
        group = self.machine.group(GROUP)
        delivered = self.submit(
            lambda machine: machine.lease(self.now, group, consumer, [selection], visibility_ms)
        )
        return [
            receipt(TOPIC, 0, record.offset, attempt, delivered.lease_id, GROUP)
            for record, attempt, *_ in singles(selection.chosen)
        ]

    def choose(self, count: int) -> Selection:
        selection = Selection(self.state)
        for lane in range(LANES):
            for offset in self.state.take_ready(lane, count - len(selection.chosen), self.now):
                selection.add_again(_record(offset), lane)
            cursor = self.next_of_lane(lane, selection.cursors[lane])
            while len(selection.chosen) < count and cursor < len(self.lanes):
                selection.add_fresh(_record(cursor), lane)
                cursor = self.next_of_lane(lane, cursor + 1)
            selection.cursors[lane] = cursor
        return selection

    def ack(self, receipts: list[str]) -> Any:
        return self._settle(receipts, lambda m, claims, n: m.ack(claims, n))

    def nack(self, receipts: list[str], delay_ms: int | None = None) -> Any:
        return self._settle(
            receipts,
            lambda m, claims, n: m.nack(self.now, claims, n, delay_ms=delay_ms, reason="no"),
        )

    def reject(self, receipts: list[str]) -> Any:
        return self._settle(
            receipts, lambda m, claims, n: m.reject(self.now, claims, n, reason="bad")
        )

    def release(self, receipts: list[str]) -> Any:
        return self._settle(receipts, lambda m, claims, n: m.release(self.now, claims, n))

    def extend(self, receipts: list[str], visibility_ms: int) -> Any:
        return self._settle(
            receipts,
            lambda m, claims, n: m.extend(self.now, claims, n, visibility_ms=visibility_ms),
        )

    def reserve_for_transaction(self, receipts: list[str], transactional_id: str) -> Any:
        return self._settle(
            receipts, lambda m, claims, n: m.reserve_for_transaction(claims, n, transactional_id)
        )

    def end_reservations(self, transactional_id: str, *, commits: bool) -> None:
        self.submit(
            lambda machine: machine.end_reservations(self.now, transactional_id, commits=commits)
        )

    def _settle(
        self,
        receipts: list[str],
        decide: Callable[[QueueMachine, Claims, int], Decision[QueueRecord, Any]],
    ) -> Any:
        claims, malformed = read_receipts(receipts)
        assert not malformed
        return self.submit(lambda machine: decide(machine, claims, len(receipts)))

    def pass_time(self, milliseconds: int) -> None:
        """The host calls the machine whenever it asked for it."""
        target = self.now + milliseconds
        while (deadline := self.machine.next_deadline()) is not None and deadline <= target:
            self.now = Timestamp(max(self.now, deadline))
            before = len(self.log)
            self.submit(lambda machine: machine.on_deadline(self.now))
            assert len(self.log) > before or self.machine.next_deadline() != deadline
        self.now = Timestamp(target)

    def dead_letter(self) -> list[int]:
        written: list[int] = []
        for state, letters in self.machine.dead():
            offsets = [letter.offset for letter in letters]
            written += offsets
            self._write_dead_letters(state.where, offsets)
        return written

    def _write_dead_letters(self, where: Where, offsets: list[Offset]) -> None:
        end = Offset(len(offsets))
        self.submit(lambda machine: machine.dead_letter(where, offsets, TopicName("jobs.dlq"), end))


def offset_of(text: str) -> int:
    return int(text.split(":")[2])


def attempt_of(text: str) -> int:
    return int(text.split(":")[3])


def claim_of(text: str) -> Claim:
    return Claim(offset_of(text), offset_of(text), attempt_of(text), 0)


def picture(machine: QueueMachine) -> dict[str, Any]:
    """Everything that must be the same after a replay."""
    return {
        "next_lease_id": machine.next_lease_id,
        "held": {g: dict(group.book.consumers) for g, group in machine.groups.items()},
        "members": {
            g: (group.generation, group.has_begun, group.members)
            for g, group in machine.groups.items()
        },
        "letters": {
            place: (box.floor, box.taken.ranges, box.end, box.moves)
            for place, box in machine.dead_letter_indexes.items()
        },
        "dead": sorted((led.where.topic, len(letters)) for led, letters in machine.dead()),
        "ledgers": {led.where: ledger_picture(led) for led in machine.states()},
    }


def ledger_picture(state: PartitionState) -> dict[str, Any]:
    return {
        "floor": state.ack_floor,
        "fence": state.fence,
        "cursors": state.cursors,
        "held": {
            offset: held
            if isinstance(held, int)
            else (
                held.lease_id,
                held.consumer,
                held.deadline,
                held.visibility_ms,
                held.transactional_id,
            )
            for offset, held in sorted(state.messages.items())
        },
        "history": {
            offset: (
                *(each.deliveries, each.failures, each.timeouts),
                *(each.first_at, each.consumer, each.error),
            )
            for offset, each in sorted(state.history.items())
        },
        "lanes": dict(sorted(state.lanes.items())),
        "keys": dict(sorted(state.keys.items())),
        "busy": {key: list(deferred or ()) for key, deferred in sorted(state.busy.items())},
        "parked_count": state.deferred_count,
        "letters": dict(sorted(state.dead.items())),
        "settled": list(state.settled.items()),
        "in_flight": state.in_flight,
        "pinned": {
            transactional_id: state.reserved_ranges(transactional_id)
            for transactional_id in sorted(state.reserved)
        },
    }


def _record(offset: int) -> Record:
    return Record(offset, 0, None, b"")


ALL_NORMAL = [NORMAL]
