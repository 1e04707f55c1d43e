"""The machine against a reference that is too simple to be wrong: a state for each message."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
)

from goqueue.model.ids import GroupId, Offset
from goqueue.queue import (
    QueueSettings,
    ReceiptExpired,
    ReceiptInTransaction,
    snapshot,
)
from goqueue.queue.lanes import LANES, NORMAL
from goqueue.queue.lease import Lease
from goqueue.queue.partition_state import DEAD, NEVER
from goqueue.queue.settling import Verdict
from tests.unit.model.snapshot_checks import check_sliced_snapshot
from tests.unit.queue.harness import (
    TOPIC_ID,
    WHERE,
    Bench,
    attempt_of,
    ledger_picture,
    new_machine,
    offset_of,
    picture,
)

CONSUMERS = st.sampled_from(["ann", "bob", "cleo"])
MIXED = st.lists(st.integers(0, LANES - 1), min_size=1, max_size=8)
OWNERS = st.sampled_from(["1:0:tx", "2:0:ty"])
MAX_FAILURES = 3
MAX_TIMEOUTS = 4


class Message:
    """The reference: where one message is, and how often it was handed out and failed."""

    def __init__(self) -> None:
        self.state = "new"  # in flight, waiting, dead, done
        self.deliveries = 0
        self.failures = 0
        self.timeouts = 0
        self.receipt = ""  # the one that is good
        self.consumer = ""
        self.until = 0  # its deadline, or when it is ready
        self.visibility = 0  # that was given last
        self.transactional_id = ""  # the transaction that acks it


class QueueAgainstReference(RuleBasedStateMachine):
    receipts = Bundle("receipts")

    @initialize(max_deliveries=st.sampled_from([0, 5]))
    def begin(self, max_deliveries: int) -> None:
        settings = QueueSettings(
            visibility_ms=1000,
            backoff_base_ms=400,
            max_failures=MAX_FAILURES,
            max_timeouts=MAX_TIMEOUTS,
            max_deliveries=max_deliveries,
        )
        self.bench = Bench(settings)
        self.max_deliveries = max_deliveries or 10**9
        self.messages: list[Message] = []
        self.restored = 0  # records of the log that were a snapshot

    # --- steps ------------------------------------------------------------------------------------

    @rule(lanes=st.one_of(MIXED, st.integers(8, 20).map(lambda count: [NORMAL] * count)))
    def publish(self, lanes: list[int]) -> None:
        self.bench.publish(lanes)
        self.messages += [Message() for _ in lanes]

    @rule(target=receipts, consumer=CONSUMERS, count=st.integers(1, 20), slow=st.booleans())
    def lease(self, consumer: str, count: int, slow: bool) -> Any:
        visibility = 5000 if slow else None
        given = self.bench.lease(consumer, count, visibility)
        for text in given:
            message = self.messages[offset_of(text)]
            ready = message.state == "waiting" and message.until <= self.bench.now
            assert message.state == "new" or ready, f"handed out while {message.state}"
            message.state = "in flight"
            message.deliveries += 1
            message.receipt, message.consumer = text, consumer
            message.visibility = visibility or 1000
            message.until = self.bench.now + message.visibility
            assert attempt_of(text) == message.deliveries
        if len(given) < count:
            assert not self._ready(), "something was left behind"
        return multiple(*given)

    @rule(text=receipts)
    def ack(self, text: str) -> None:
        message, outcome = self._outcome_of(text, self.bench.ack([text]))
        if isinstance(outcome, Verdict):
            assert message.receipt == text, "the last delivery alone can finish it"
            assert message.state in ("in flight", "done")
            message.state = "done"
        else:
            assert isinstance(outcome, ReceiptExpired | ReceiptInTransaction)
            assert not self._is_good(text)

    @rule(text=receipts, delay=st.sampled_from([None, 0, 700]))
    def nack(self, text: str, delay: int | None) -> None:
        message, outcome = self._outcome_of(text, self.bench.nack([text], delay))
        if isinstance(outcome, Verdict):
            message.failures += 1
            self._came_back(message)
            assert outcome.action == ("dead" if message.state == "dead" else "requeued")
            if delay is not None and message.state == "waiting":
                assert message.until == self.bench.now + delay

    @rule(text=receipts)
    def release(self, text: str) -> None:
        message, outcome = self._outcome_of(text, self.bench.release([text]))
        if isinstance(outcome, Verdict):
            self._came_back(message)
            assert outcome.action == ("dead" if message.state == "dead" else "released")
            assert message.state == "dead" or message.until == self.bench.now

    @rule(text=receipts)
    def reject(self, text: str) -> None:
        message, outcome = self._outcome_of(text, self.bench.reject([text]))
        if isinstance(outcome, Verdict):
            message.state = "dead"

    @rule(texts=st.lists(receipts, min_size=1, max_size=4), visibility=st.integers(1, 3000))
    def extend(self, texts: list[str], visibility: int) -> None:
        for text, outcome in zip(texts, self.bench.extend(texts, visibility), strict=True):
            assert isinstance(outcome, Verdict) == self._is_good(text)
            if isinstance(outcome, Verdict):
                self.messages[offset_of(text)].until = self.bench.now + visibility
                self.messages[offset_of(text)].visibility = visibility

    @rule(texts=st.lists(receipts, min_size=1, max_size=12), transactional_id=OWNERS)
    def reserve_for_transaction(self, texts: list[str], transactional_id: str) -> None:
        outcomes = self.bench.reserve_for_transaction(texts, transactional_id)
        good = [self._is_good(text) or self._is_pinned(text, transactional_id) for text in texts]
        assert [isinstance(outcome, Verdict) for outcome in outcomes] == good
        if all(good):
            for text in texts:
                message = self.messages[offset_of(text)]
                message.transactional_id, message.until = transactional_id, NEVER

    @rule(transactional_id=OWNERS, commits=st.booleans())
    def end_reservations(self, transactional_id: str, commits: bool) -> None:
        self.bench.end_reservations(transactional_id, commits=commits)
        assert transactional_id not in self.bench.machine.table.reservations
        for message in self.messages:
            if message.transactional_id == transactional_id and commits:
                message.state, message.transactional_id = "done", ""
            elif message.transactional_id == transactional_id:
                message.transactional_id, message.until = "", self.bench.now + message.visibility

    @rule(milliseconds=st.integers(0, 2500))
    def pass_time(self, milliseconds: int) -> None:
        """Leases run out one after the other, at their time."""
        target = self.bench.now + milliseconds
        self.bench.pass_time(milliseconds)
        for offset, message in enumerate(self.messages):
            if message.state == "in flight" and message.until <= target:
                message.timeouts += 1
                self._came_back(message, offset)

    @rule(consumer=CONSUMERS, failed=st.booleans())
    def release_consumer(self, consumer: str, failed: bool) -> None:
        self.bench.submit(
            lambda machine: machine.release_consumer(
                self.bench.now, GroupId("workers"), consumer, failed=failed
            )
        )
        for offset, message in enumerate(self.messages):
            is_held = message.state == "in flight" and message.consumer == consumer
            if is_held and not message.transactional_id:
                message.timeouts += failed
                self._came_back(message, offset)

    @rule()
    def dead_letter(self) -> None:
        written = self.bench.dead_letter()
        dead = [o for o, message in enumerate(self.messages) if message.state == "dead"]
        assert sorted(written) == dead
        for offset in dead:
            self.messages[offset].state = "done"
            self.messages[offset].receipt = ""

    @rule(data=st.data())
    def move_ack_floor(self, data: st.DataObject) -> None:
        floor = data.draw(st.integers(0, len(self.messages)))
        is_back = floor < self.bench.state.ack_floor
        self.bench.submit(lambda machine: machine.move_ack_floor(WHERE.group_id, Offset(floor)))
        for offset, message in enumerate(self.messages):
            if offset < floor and message.state != "dead" and message.state != "done":
                message.receipt = message.receipt if message.state == "in flight" else ""
                message.state, message.transactional_id = "done", ""
            if is_back and offset >= floor:
                self.messages[offset] = Message()

    @rule(data=st.data())
    def lose_end(self, data: st.DataObject) -> None:
        """The log lost its end, and as many messages were written there since."""
        end = data.draw(st.integers(0, len(self.messages)))
        self.bench.submit(lambda machine: machine.shorten_log(TOPIC_ID, Offset(end)))
        self.messages[end:] = [Message() for _ in self.messages[end:]]

    @rule()
    def crash(self) -> None:
        """What was decided is there again, exactly."""
        self.bench.machine = self.bench.replay()

    @rule()
    def crash_after_snapshot(self) -> None:
        self.bench.log = [self.bench.machine.encode(r) for r in self.bench.machine.snapshot()]
        self.bench.machine = self.bench.replay()
        self.restored = len(self.bench.log)

    # --- what must hold ---------------------------------------------------------------------------

    @invariant()
    def each_message_is_where_the_reference_has_it(self) -> None:
        state = self.bench.state
        for offset, message in enumerate(self.messages):
            held = state.messages.get(offset)
            match message.state:
                case "new":
                    assert held is None
                    assert offset >= state.cursors[self.bench.lanes[offset]]
                case "in flight":
                    assert isinstance(held, Lease)
                    assert (held.consumer, held.deadline) == (message.consumer, message.until)
                    assert held.transactional_id == message.transactional_id
                case "waiting":
                    assert isinstance(held, int)
                    assert held >= 0
                    assert max(held, message.until) == message.until
                case "dead":
                    assert held == DEAD, offset
                case _:
                    assert held is None
            if message.state in ("in flight", "waiting"):
                assert state.attempt(offset) == message.deliveries
                assert state.failures(offset) == message.failures
                assert state.timeouts(offset) == message.timeouts

    @invariant()
    def the_floor_passes_nothing_that_is_not_done(self) -> None:
        below = self.messages[: self.bench.state.ack_floor]
        assert all(message.state in ("done", "dead") for message in below)

    @invariant()
    def nothing_is_kept_of_what_is_done(self) -> None:
        state = self.bench.state
        live = [m for m in self.messages if m.state in ("in flight", "waiting", "dead")]
        assert len(state.messages) == len(live)
        assert len(state.history) <= len(state.messages)
        in_flight = sum(message.state == "in flight" for message in self.messages)
        assert sum(state.in_flight) == in_flight
        assert self.bench.machine.table.group(WHERE.group_id).book.in_flight == in_flight
        assert sum(lease.remaining for lease in state.leases) == in_flight

    @invariant()
    def transactions_have_what_they_pinned_and_nothing_else(self) -> None:
        reserved = {
            transactional_id: sum(lease.remaining for lease in leases)
            for transactional_id, leases in self.bench.state.reserved.items()
        }
        owners = [message.transactional_id for message in self.messages if message.transactional_id]
        assert reserved == {
            transactional_id: owners.count(transactional_id) for transactional_id in owners
        }
        assert reserved.keys() <= self.bench.machine.table.reservations.keys()

    @invariant()
    def replay_equals_live(self) -> None:
        live = picture(self.bench.machine)
        assert picture(self.bench.replay()) == live
        assert picture(self.bench.replay_snapshot()) == live

    def teardown(self) -> None:
        """Nothing is lost: worked off to the end, every message is acked or dead."""
        if not hasattr(self, "bench"):
            return
        self._check_sliced_snapshots()
        for transactional_id in list(self.bench.machine.table.reservations):
            self.bench.end_reservations(transactional_id, commits=False)
        for _ in range(20):
            self.bench.pass_time(100_000)
            self.bench.ack(self.bench.lease("finisher", 100_000))
            self.bench.dead_letter()
        assert not self.bench.state.messages, ledger_picture(self.bench.state)
        assert self.bench.state.ack_floor == len(self.messages)

    def _check_sliced_snapshots(self) -> None:
        log, restored = self.bench.log, self.restored
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(snapshot, "PART_ENTRIES_MAX", 2)
            for eighths in range(0, 8, 3):
                begins_at = restored + (len(log) - restored) * eighths // 8
                check_sliced_snapshot(
                    new_machine, log, picture, begins_at=begins_at, steps=(4, 0, 1, 0)
                )

    # --- helpers ----------------------------------------------------------------------------------

    def _outcome_of(self, text: str, outcomes: list[Any]) -> tuple[Message, Any]:
        message = self.messages[offset_of(text)]
        if self._is_good(text):
            assert isinstance(outcomes[0], Verdict), outcomes[0]
        return message, outcomes[0]

    def _is_good(self, text: str) -> bool:
        message = self.messages[offset_of(text)]
        return (
            message.state == "in flight"
            and message.receipt == text
            and not message.transactional_id
        )

    def _is_pinned(self, text: str, transactional_id: str) -> bool:
        message = self.messages[offset_of(text)]
        return (
            message.state == "in flight"
            and message.receipt == text
            and message.transactional_id == transactional_id
        )

    def _came_back(self, message: Message, offset: int | None = None) -> None:
        if (
            message.failures >= MAX_FAILURES
            or message.timeouts >= MAX_TIMEOUTS
            or message.deliveries >= self.max_deliveries
        ):
            message.state = "dead"
            return
        message.state = "waiting"
        where = self.messages.index(message) if offset is None else offset
        held = self.bench.state.messages[where]
        assert isinstance(held, int)
        message.until = max(held, self.bench.now) if held == 0 else held

    def _ready(self) -> list[Message]:
        now = self.bench.now
        return [
            m
            for m in self.messages
            if m.state == "new" or (m.state == "waiting" and m.until <= now)
        ]


TestQueueAgainstReference = QueueAgainstReference.TestCase
TestQueueAgainstReference.settings = settings(
    max_examples=60, stateful_step_count=40, report_multiple_bugs=False
)
