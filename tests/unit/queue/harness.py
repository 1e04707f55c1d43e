"""A queue machine as its host would run it, over a log that exists only as a list of lanes."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from goqueue.model.errors import GoQueueError
from goqueue.model.ids import GroupId, Offset, Timestamp, TopicId, TopicName
from goqueue.model.machine import Decision
from goqueue.model.markers import Marker
from goqueue.model.record import Record
from goqueue.queue import GroupTable, QueueMachine, QueueSettings, Where
from goqueue.queue.delivery import Selection
from goqueue.queue.delivery_batch import singles
from goqueue.queue.lanes import LANES, NORMAL
from goqueue.queue.owners import read_owner
from goqueue.queue.partition_state import PartitionState
from goqueue.queue.receipts import Claim, Claims, read_receipts, receipt
from goqueue.queue.records import QueueRecord
from goqueue.queue.settling import NEVER_DELIVERED, Outcomes

GROUP = GroupId("workers")
TOPIC = TopicName("jobs")
TOPIC_ID = TopicId(UUID(int=1))
WHERE = Where(GROUP, TOPIC, 0)


def new_machine(settings: QueueSettings | None = None) -> QueueMachine:
    given = settings or QueueSettings()
    return QueueMachine(TOPIC, 0, GroupTable(lambda _: given))


class Bench:
    """Applies what is decided and keeps it as bytes, so that it can be replayed."""

    def __init__(self, settings: QueueSettings | None = None) -> None:
        self.settings = settings or QueueSettings()
        self.machine = self._replay([])
        self.log: list[bytes] = []
        self.lanes: list[int] = []  # of the messages that were published
        self.now = Timestamp(1_000_000)
        self.submit(lambda machine: machine.open(self.now, GROUP, TOPIC_ID, Offset(0)))

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
        return self._replay(self.log)

    def replay_snapshot(self) -> QueueMachine:
        return self._replay([self.machine.encode(each) for each in self.machine.snapshot()])

    def _replay(self, log: list[bytes]) -> QueueMachine:
        machine = new_machine(self.settings)
        for data in log:
            machine.apply(machine.decode(data))
        return machine

    @property
    def state(self) -> PartitionState:
        return self.machine.states[GROUP]

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
        visibility_ms = visibility_ms or self.settings.visibility_ms
        deadline = Timestamp(self.now + visibility_ms)
        lease_id = self.submit(
            lambda machine: machine.lease(self.now, consumer, selection, deadline)
        )
        return [
            receipt(TOPIC, 0, record.offset, attempt, lease_id, GROUP)
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
        return self._settle(receipts, lambda m, claims, out: m.ack(claims, out))

    def nack(self, receipts: list[str], delay_ms: int | None = None) -> Any:
        return self._settle(
            receipts,
            lambda m, claims, out: m.nack(self.now, claims, out, delay_ms=delay_ms, reason="no"),
        )

    def reject(self, receipts: list[str]) -> Any:
        return self._settle(
            receipts, lambda m, claims, out: m.reject(self.now, claims, out, reason="bad")
        )

    def release(self, receipts: list[str]) -> Any:
        return self._settle(receipts, lambda m, claims, out: m.release(self.now, claims, out))

    def extend(self, receipts: list[str], visibility_ms: int) -> Any:
        return self._settle(
            receipts,
            lambda m, claims, out: m.extend(self.now, claims, out, visibility_ms=visibility_ms),
        )

    def reserve_for_transaction(self, receipts: list[str], transactional_id: str) -> Any:
        """All of them or none, as the host has it."""
        return self._settle(
            receipts,
            lambda m, claims, outcomes: _all_or_none(
                m.reserve_for_transaction(claims, outcomes, transactional_id), outcomes
            ),
        )

    def end_reservations(self, owner: str, *, commits: bool) -> None:
        producer_id, epoch, _ = read_owner(owner)
        marker = Marker(producer_id, epoch, coordinator_epoch=0, commits=commits)
        self.submit(lambda machine: machine.end_transaction(self.now, marker))

    def _settle(
        self,
        receipts: list[str],
        decide: Callable[[QueueMachine, Claims, Outcomes], Decision[QueueRecord, Any]],
    ) -> Any:
        claims, malformed = read_receipts(receipts)
        assert not malformed
        outcomes: Outcomes = [NEVER_DELIVERED] * len(receipts)
        self.submit(lambda machine: decide(machine, claims, outcomes))
        return outcomes

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
        for state, letters in self.machine.table.dead():
            offsets = [letter.offset for letter in letters]
            written += offsets
            self._write_dead_letters(state.where, offsets)
        return written

    def _write_dead_letters(self, where: Where, offsets: list[Offset]) -> None:
        end = Offset(len(offsets))
        self.submit(lambda machine: machine.dead_letter(where, offsets, TopicName("jobs.dlq"), end))


def bench_of(count: int, **settings: int) -> Bench:
    """With so many messages of the normal lane."""
    made = Bench(QueueSettings(**settings))  # type: ignore[arg-type]  # numbers alone
    made.publish([NORMAL] * count)
    return made


def offset_of(text: str) -> int:
    return int(text.split(":")[2])


def attempt_of(text: str) -> int:
    return int(text.split(":")[3])


def claim_of(text: str) -> Claim:
    return Claim(offset_of(text), offset_of(text), attempt_of(text), 0)


def picture(machine: QueueMachine) -> dict[str, Any]:
    """Everything that must be the same after a replay."""
    groups, letters = machine.table.groups, machine.dead_letters
    return {
        "next_lease_id": machine.next_lease_id,
        "held": {g: dict(group.book.consumers) for g, group in groups.items()},
        "letters": (letters.floor, letters.taken.ranges, letters.moves, machine.dead_letters_end),
        "dead": sorted((led.where.topic, len(some)) for led, some in machine.table.dead()),
        "ledgers": {group_id: ledger_picture(led) for group_id, led in machine.states.items()},
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


def _all_or_none(
    decision: Decision[QueueRecord, Any], outcomes: Outcomes
) -> Decision[QueueRecord, Any]:
    is_refused = any(isinstance(each, GoQueueError) for each in outcomes)
    return Decision((), None) if is_refused else decision


def _record(offset: int) -> Record:
    return Record(offset, 0, None, b"")
