"""The coordinator under any sequence of verbs, with restarts in between.

A model of a few lines stands beside it: which producers were fenced, and what was decided.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from goqueue.model.ids import Timestamp, TopicName, TopicPartition
from goqueue.txn import ProducerIdentity, State, TransactionMachine
from goqueue.txn.errors import TransactionError
from tests.unit.model.snapshot_checks import check_sliced_snapshot
from tests.unit.txn.coordinator import Coordinator, state_of

NAMES = st.sampled_from(["x", "y", "z"])
APPLICATIONS = st.sampled_from(["first", "second"])
PLACES = st.tuples(st.sampled_from([TopicName("a"), TopicName("b")]), st.integers(0, 2))


class CoordinatorRules(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.coordinator = Coordinator()
        self.held: dict[str, list[ProducerIdentity]] = {}  # all identities ever given out
        self.newest: dict[str, ProducerIdentity] = {}
        self.owners: dict[ProducerIdentity, str] = {}
        self.runs: dict[str, int] = {}
        self.attempts: dict[ProducerIdentity, tuple[str, int, int, str]] = {}
        self.ended: set[ProducerIdentity] = set()  # attempts about which something was decided

    # --- helpers ----------------------------------------------------------------------------------

    def note_given(self, name: str, who: ProducerIdentity) -> None:
        self.held.setdefault(name, []).append(who)
        self.newest[name] = who
        assert self.owners.setdefault(who, name) == name, "no identity has two owners"

    def someone(self, name: str, index: int) -> ProducerIdentity | None:
        held = self.held.get(name)
        return held[index % len(held)] if held else None

    # --- verbs ------------------------------------------------------------------------------------

    @rule(name=NAMES)
    def starts(self, name):
        self.note_given(name, self.coordinator.init(name))

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
            self.note_given(name, after)

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

    @rule(name=NAMES, index=st.integers(0, 50), group=st.sampled_from(["g", "h"]))
    def adds_a_group(self, name, index, group):
        who = self.someone(name, index)
        if who is None:
            return
        coordinator = self.coordinator
        try:
            coordinator.do(lambda machine: machine.add_group(coordinator.now, name, who, group))
        except TransactionError:
            return
        assert who == self.newest[name], "a fenced producer got in"

    @rule(name=NAMES, index=st.integers(0, 50), commits=st.booleans(), bumps=st.booleans())
    def ends(self, name, index, commits, bumps):
        who = self.someone(name, index)
        if who is None:
            return
        before = self.coordinator.machine.get(name).to_record()
        try:
            after = self.coordinator.end(name, who, commits=commits, bumps=bumps)
        except TransactionError:
            assert self.coordinator.machine.get(name).to_record() == before
            return
        transaction = self.coordinator.machine.get(name)
        assert transaction.commits == commits, "told one thing, decided another"
        assert (after.producer_id, after.epoch) == (transaction.producer_id, transaction.epoch)
        if bumps:
            assert after != who
            self.note_given(name, after)

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
                lambda machine: machine.applications.decide(
                    coordinator.now, "app", version, run, members
                )
            )
        except TransactionError:
            after = {name: coordinator.machine.get(name).state for name, _ in members}
            assert after == before, "a refused decision changed something"
            return
        assert decided.was_decided == (version <= known), "a version is decided once"
        for (name, _), after_it in zip(members, decided.members, strict=not decided.was_decided):
            assert coordinator.machine.get(name).state is State.PREPARE_COMMIT
            self.note_given(name, after_it)

    # --- attempts: two applications, a few versions, tasks and runs -------------------------------

    @rule(app=APPLICATIONS, run=st.integers(0, 2))
    def a_run_starts(self, app, run):
        try:
            self.coordinator.start_run(app, run)
        except TransactionError:
            return
        self.runs[app] = run

    @rule(app=APPLICATIONS, version=st.integers(0, 4), task=st.integers(0, 1), writes=st.booleans())
    def an_attempt_starts(self, app, version, task, writes):
        run = self.runs.get(app)
        if run is None:
            return
        try:
            started = self.coordinator.start_attempt(
                app, run, version, task, len(self.attempts) % 2
            )
        except TransactionError:
            return
        known = self.coordinator.machine.applications.version(app)
        assert (started is None) == (version <= known)
        if started is None:
            return
        if writes:
            self.coordinator.add(*started, TopicPartition(TopicName("a"), task))
        self.attempts[started[1]] = (app, run, version, started[0])

    @rule(index=st.integers(0, 50))
    def an_attempt_writes(self, index):
        if not self.attempts:
            return
        who, (app, run, version, name) = list(self.attempts.items())[index % len(self.attempts)]
        try:
            self.coordinator.add(name, who, TopicPartition(TopicName("b"), 0))
        except TransactionError:
            return
        known = self.coordinator.machine.applications.find(app)
        assert known is not None
        assert run == known.run, "a fenced run got in"
        assert version > known.version, "an attempt at a decided version got in"
        assert who not in self.ended, "one that was told to have ended got in"

    @rule(app=APPLICATIONS, version=st.integers(0, 4), index=st.integers(0, 50))
    def a_version_is_decided(self, app, version, index):
        run = self.runs.get(app)
        if run is None:
            return
        of_it = [
            (name, who)
            for who, (of, in_run, at, name) in self.attempts.items()
            if (of, in_run, at) == (app, run, version) and self.is_open(name, who)
        ]
        named = of_it[: index % (len(of_it) + 1)]
        known = self.coordinator.machine.applications.version(app)
        try:
            ended = self.coordinator.decide(app, run, version, named)
        except TransactionError:
            assert version < known
            return
        assert ended.was_decided == (version <= known)
        if ended.was_decided:
            return
        for name, who in of_it:
            found = self.coordinator.machine.find(name)
            if (name, who) in named:
                assert found is not None
                assert found.state is State.PREPARE_COMMIT
            else:
                assert found is None or found.state is State.PREPARE_ABORT
        self.ended |= {who for _, who in of_it}

    def is_open(self, name: str, who: ProducerIdentity) -> bool:
        found = self.coordinator.machine.find(name)
        return found is not None and (found.producer_id, found.epoch) == (
            who.producer_id,
            who.epoch,
        )

    @rule(app=APPLICATIONS, version=st.integers(0, 4))
    def a_version_is_aborted(self, app, version):
        run = self.runs.get(app)
        if run is None:
            return
        try:
            ended = self.coordinator.abort_group(app, run, version)
        except TransactionError:
            return
        if not ended.was_decided:
            self.ended |= {
                who
                for who, (of, in_run, at, _) in self.attempts.items()
                if (of, in_run, at) == (app, run, version)
            }

    @rule()
    def everything_is_carried_out(self):
        for transaction in self.coordinator.machine.prepared:
            self.coordinator.complete(transaction.transactional_id)

    @invariant()
    def undecided_attempts_and_no_others_are_listed(self):
        machine = self.coordinator.machine
        listed = {
            name: attempt
            for known in machine.applications.known.values()
            for name, attempt in known.attempts.items()
        }
        held = {
            each.transactional_id: each.attempt
            for each in machine.all()
            if each.attempt is not None and not each.state.is_prepared
        }
        assert listed == held
        for attempt in held.values():
            known = machine.applications.find(attempt.application)
            assert known is not None
            assert attempt.run == known.run
            assert attempt.version > known.version

    # --- what always holds ------------------------------------------------------------------------

    @rule()
    def restarts_from_its_log(self):
        replayed = self.coordinator.replay()
        assert state_of(replayed) == state_of(self.coordinator.machine)
        self.coordinator.machine = replayed

    @rule()
    def restarts_from_a_snapshot(self):
        records = list(self.coordinator.machine.snapshot())
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
    def a_marker_ends_what_its_transaction_wrote_and_not_what_the_next_one_will(self):
        for transaction in self.coordinator.machine.prepared:
            marker = transaction.marker(coordinator_epoch=0)
            assert marker.ended_epoch >= transaction.previous_epoch
            if not transaction.shares_epoch and transaction.attempt is None:
                following = transaction.producer_id, transaction.epoch
                assert following > (marker.producer_id, marker.ended_epoch)

    def teardown(self):
        log = self.coordinator.log
        for eighths in range(0, 8, 3):
            begins_at = len(log) * eighths // 8
            check_sliced_snapshot(
                TransactionMachine, log, state_of, begins_at=begins_at, steps=(0, 1, 0, 0)
            )


TestCoordinator = CoordinatorRules.TestCase
TestCoordinator.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
