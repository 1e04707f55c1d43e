"""The coordinator under any sequence of verbs, with restarts in between.

A model of a few lines stands beside it: which producers were fenced, and what was decided.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from goqueue.model.ids import Offset, Timestamp, TopicName
from goqueue.txn import PendingOffset, ProducerIdentity, State, TransactionMachine
from goqueue.txn.errors import TransactionError
from tests.unit.txn.coordinator import Coordinator, state_of

NAMES = st.sampled_from(["x", "y", "z"])
PLACES = st.tuples(st.sampled_from([TopicName("a"), TopicName("b")]), st.integers(0, 2))


class CoordinatorRules(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.coordinator = Coordinator()
        self.held: dict[str, list[ProducerIdentity]] = {}  # all identities ever given out
        self.newest: dict[str, ProducerIdentity] = {}
        self.owners: dict[ProducerIdentity, str] = {}
        self.decided: dict[tuple[str, int], bool] = {}  # (name, marker epoch or id) to the end

    # --- helpers ----------------------------------------------------------------------------------

    def given(self, name: str, who: ProducerIdentity) -> None:
        self.held.setdefault(name, []).append(who)
        self.newest[name] = who
        assert self.owners.setdefault(who, name) == name, "no identity has two owners"

    def someone(self, name: str, index: int) -> ProducerIdentity | None:
        held = self.held.get(name)
        return held[index % len(held)] if held else None

    # --- verbs ------------------------------------------------------------------------------------

    @rule(name=NAMES)
    def starts(self, name):
        self.given(name, self.coordinator.init(name))

    @rule(name=NAMES, index=st.integers(0, 50))
    def goes_on_after_an_error(self, name, index):
        who = self.someone(name, index)
        if who is None:
            return
        try:
            after = self.coordinator.init(name, expected=who)
        except TransactionError:
            assert who != self.newest[name] or self.is_bumped(name)
        else:
            self.given(name, after)

    def is_bumped(self, name: str) -> bool:
        transaction = self.coordinator.machine.get(name)
        newest = self.newest[name]
        return (transaction.producer_id, transaction.epoch) != (newest.producer_id, newest.epoch)

    @rule(name=NAMES, index=st.integers(0, 50), places=st.lists(PLACES, min_size=1, max_size=3))
    def adds_partitions(self, name, index, places):
        who = self.someone(name, index)
        if who is None:
            return
        try:
            self.coordinator.add(name, who, *places)
        except TransactionError:
            return
        assert who == self.newest[name], "a fenced producer got in"
        assert self.coordinator.machine.get(name).state is State.ONGOING

    @rule(name=NAMES, index=st.integers(0, 50), partition=st.integers(0, 2))
    def adds_offsets(self, name, index, partition):
        who = self.someone(name, index)
        if who is None:
            return
        offset = PendingOffset(TopicName("in"), partition, Offset(1))
        coordinator = self.coordinator
        try:
            coordinator.do(
                lambda machine: machine.add_offsets(
                    coordinator.now, name, who, "group", [offset], adds_group=True
                )
            )
        except TransactionError:
            return
        assert who == self.newest[name], "a fenced producer got in"

    @rule(name=NAMES, index=st.integers(0, 50), commits=st.booleans(), bumps=st.booleans())
    def ends(self, name, index, commits, bumps):
        who = self.someone(name, index)
        if who is None:
            return
        before = self.coordinator.machine.get(name).kept()
        try:
            after = self.coordinator.end(name, who, commits=commits, bumps=bumps)
        except TransactionError:
            assert self.coordinator.machine.get(name).kept() == before
            return
        transaction = self.coordinator.machine.get(name)
        assert transaction.commits == commits, "told one thing, decided another"
        assert (after.producer_id, after.epoch) == (transaction.producer_id, transaction.epoch)
        if bumps:
            assert after != who
            self.given(name, after)

    @rule(name=NAMES)
    def is_carried_out(self, name):
        if self.coordinator.machine.find(name) is not None:
            self.coordinator.complete(name)

    @rule(name=NAMES)
    def is_aborted_by_an_operator(self, name):
        coordinator = self.coordinator
        if coordinator.machine.find(name) is not None:
            coordinator.do(lambda machine: machine.abort(coordinator.now, name))

    @rule(milliseconds=st.integers(0, 90_000))
    def time_passes(self, milliseconds):
        coordinator = self.coordinator
        coordinator.now = Timestamp(coordinator.now + milliseconds)
        coordinator.do(lambda machine: machine.on_deadline(coordinator.now))
        for transaction in coordinator.machine.ongoing:
            assert transaction.deadline > coordinator.now

    @rule(version=st.integers(0, 5), run=st.integers(0, 2), names=st.sets(NAMES))
    def decides_for_many(self, version, run, names):
        coordinator = self.coordinator
        members = [(name, self.newest[name]) for name in sorted(names) if name in self.newest]
        before = {name: coordinator.machine.get(name).state for name, _ in members}
        known = coordinator.machine.applications.version("app")
        try:
            decided = coordinator.do(
                lambda machine: machine.decide_group(coordinator.now, "app", version, run, members)
            )
        except TransactionError:
            after = {name: coordinator.machine.get(name).state for name, _ in members}
            assert after == before, "a refused decision changed something"
            return
        assert (decided is None) == (version <= known), "a version is decided once"
        for (name, _), after_it in zip(members, decided or (), strict=decided is not None):
            assert coordinator.machine.get(name).state is State.PREPARE_COMMIT
            self.given(name, after_it)

    # --- what always holds ------------------------------------------------------------------------

    @rule()
    def restarts_from_its_log(self):
        replayed = self.coordinator.replayed()
        assert state_of(replayed) == state_of(self.coordinator.machine)
        self.coordinator.machine = replayed

    @rule()
    def restarts_from_a_snapshot(self):
        records = self.coordinator.machine.snapshot()
        restored = TransactionMachine()
        for record in records:
            restored.apply(restored.decode(restored.encode(record)))
        assert state_of(restored) == state_of(self.coordinator.machine)
        self.coordinator.machine = restored
        self.coordinator.log = [restored.encode(record) for record in records]

    @invariant()
    def epochs_never_fall(self):
        for name, who in self.newest.items():
            transaction = self.coordinator.machine.get(name)
            if transaction.producer_id == who.producer_id:
                assert transaction.epoch >= who.epoch

    @invariant()
    def offsets_are_pending_while_their_transaction_is(self):
        machine = self.coordinator.machine
        pending = {
            (group, place)
            for transaction in (*machine.ongoing, *machine.prepared)
            for group, offsets in transaction.offsets.items()
            for place in offsets
        }
        index = machine.pending_offsets._by_group
        assert pending == {(group, place) for group, held in index.items() for place in held}


TestCoordinator = CoordinatorRules.TestCase
TestCoordinator.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
