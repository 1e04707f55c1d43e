"""Many transactions by one decision: runs, attempts, and what is left of them."""

from functools import partial

import pytest

from goqueue.model.ids import PRODUCER_EPOCH_MAX, Timestamp
from goqueue.txn import ProducerIdentity, RunBegun, State, TransactionMachine
from goqueue.txn.applications import APPLICATION_IDLE_MS_MAX, ATTEMPT_TIMEOUT_MS_MAX, RUN_NAMES_KEPT
from goqueue.txn.deadlines import ENTRIES_MIN
from goqueue.txn.errors import (
    ApplicationFenced,
    InvalidTransactionState,
    InvalidTransactionTimeout,
    ProducerFenced,
    TransactionalIdNotFound,
    VersionDiffers,
    VersionGoesBack,
)
from goqueue.txn.records import Attempt
from tests.unit.txn.coordinator import A0, Coordinator, state_of

APP = "app"


@pytest.fixture
def coordinator() -> Coordinator:
    coordinator = Coordinator()
    coordinator.start_run(APP, 1)
    return coordinator


def members(coordinator: Coordinator, *names: str) -> list[tuple[str, ProducerIdentity]]:
    """Producers that outlive the decision."""
    found = []
    for name in names:
        who = coordinator.init(name)
        coordinator.add(name, who, A0)
        found.append((name, who))
    return found


def states(coordinator: Coordinator) -> dict[str, State]:
    return {each.transactional_id: each.state for each in coordinator.machine.all()}


def carry_out(coordinator: Coordinator) -> None:
    for transaction in coordinator.machine.prepared:
        coordinator.complete(transaction.transactional_id)


# --- one decision -------------------------------------------------------------------------------


def test_one_record_commits_many_transactions(coordinator):
    tasks = members(coordinator, "one", "two")
    written = len(coordinator.log)
    decided = coordinator.decide(APP, 1, 0, tasks)
    assert [each.epoch for each in decided.members] == [who.epoch + 1 for _, who in tasks]
    assert len(coordinator.log) == written + 1
    assert set(states(coordinator).values()) == {State.PREPARE_COMMIT}
    assert state_of(coordinator.replay()) == state_of(coordinator.machine)


def test_a_group_is_committed_whole_or_not_at_all(coordinator):
    tasks = members(coordinator, "one", "two")
    coordinator.end("two", tasks[1][1], commits=False)
    with pytest.raises(ProducerFenced):
        coordinator.decide(APP, 1, 0, tasks)
    assert coordinator.machine.get("one").state is State.ONGOING


def test_a_version_with_other_contents_is_refused(coordinator):
    """Its rows are others: taken for a repetition they would be lost."""
    coordinator.decide(APP, 1, 4, members(coordinator, "a"), "offsets 0 to 8")
    coordinator.decide(APP, 1, 5, members(coordinator, "b"), "offsets 8 to 9")
    for machine in (coordinator.machine, coordinator.replay(), coordinator.restore()):
        decide = partial(machine.applications.decide, coordinator.now, APP, run=1, members=[])
        assert decide(version=5, contents="offsets 8 to 9").reply.was_decided
        assert decide(version=4, contents="offsets 0 to 8").reply.was_decided
        assert decide(version=5, contents="").reply.was_decided, "a former client says nothing"
        for version in (4, 5):
            with pytest.raises(VersionDiffers, match="offsets 8 to 11") as refused:
                decide(version=version, contents="offsets 8 to 11")
            assert f"version {version} " in str(refused.value)
    coordinator.decide(APP, 1, 6, members(coordinator, "c"), "offsets 9 to 11")
    assert coordinator.machine.applications.known[APP].contents.keys() == {5, 6}


def test_a_version_is_decided_once(coordinator):
    assert not coordinator.decide(APP, 1, 5, members(coordinator, "a")).was_decided
    assert coordinator.decide(APP, 1, 5, members(coordinator, "b")).was_decided
    assert coordinator.decide(APP, 1, 4, members(coordinator, "c")).was_decided
    with pytest.raises(VersionGoesBack):
        coordinator.decide(APP, 1, 3, members(coordinator, "d"))
    assert not coordinator.decide(APP, 2, 6, members(coordinator, "e")).was_decided
    with pytest.raises(ApplicationFenced):
        coordinator.decide(APP, 1, 7, members(coordinator, "f"))


def test_a_repeated_decision_does_not_touch_the_next_transaction_of_its_members(coordinator):
    ((name, who),) = tasks = members(coordinator, "task")
    (after,) = coordinator.decide(APP, 1, 0, tasks).members
    coordinator.complete(name)
    coordinator.add(name, after, A0)
    assert not coordinator.do(lambda machine: machine.abort(coordinator.now, name, only=who))
    assert coordinator.machine.get(name).state is State.ONGOING


# --- runs ---------------------------------------------------------------------------------------


def test_a_new_run_fences_the_ones_before(coordinator):
    assert coordinator.start_run(APP, 3) == RunBegun(3, -1, ())
    assert coordinator.start_run(APP, 3) == RunBegun(3, -1, ())
    with pytest.raises(ApplicationFenced):
        coordinator.start_run(APP, 2)
    with pytest.raises(ApplicationFenced):
        coordinator.start_attempt(APP, 2, 0)
    with pytest.raises(ApplicationFenced):
        coordinator.abort_group(APP, 2, 0)


def test_a_new_run_aborts_what_older_ones_left_open(coordinator):
    name, who = coordinator.write_attempt(APP, 1, 0)
    coordinator.start_attempt(APP, 1, 0, task=1)
    other = coordinator.write_attempt("other", 0, 0) if coordinator.start_run("other", 0) else None
    assert other is not None
    assert coordinator.start_run(APP, 2) == RunBegun(2, -1, (name,))
    assert states(coordinator) == {name: State.PREPARE_ABORT, other[0]: State.ONGOING}
    with pytest.raises(ProducerFenced):
        coordinator.add(name, who, A0)


def test_a_run_with_a_name_is_started_by_whoever_comes_first(coordinator):
    assert coordinator.start_named_run(APP, "monday") == RunBegun(2, -1, ())
    written = len(coordinator.log)
    assert coordinator.start_named_run(APP, "monday") == RunBegun(2, -1, ())
    assert len(coordinator.log) == written
    name, _ = coordinator.write_attempt(APP, 2, 0)
    assert coordinator.start_named_run(APP, "tuesday") == RunBegun(3, -1, (name,))
    assert state_of(coordinator.replay()) == state_of(coordinator.machine)


def test_a_named_run_that_was_fenced_does_not_come_back(coordinator):
    for name in ("monday", "tuesday"):
        coordinator.start_named_run(APP, name)
    with pytest.raises(ApplicationFenced, match="'monday' of 'app'; run 'tuesday' has started"):
        coordinator.start_named_run(APP, "monday")
    coordinator.start_run(APP, 9)
    with pytest.raises(ApplicationFenced, match="run 9 has started"):
        coordinator.start_named_run(APP, "tuesday")
    assert coordinator.start_named_run("other", "monday").run == 0


def test_names_of_runs_are_kept_through_a_snapshot_and_do_not_pile_up(coordinator):
    names = [f"run-{number}" for number in range(RUN_NAMES_KEPT + 5)]
    for name in names:
        coordinator.start_named_run(APP, name)
    restored = TransactionMachine()
    for record in coordinator.machine.snapshot():
        restored.apply(restored.decode(restored.encode(record)))
    assert restored.applications.known == coordinator.machine.applications.known
    (kept,) = restored.applications.snapshot()
    assert kept.run_name == names[-1]
    assert kept.past_run_names == tuple(names[-RUN_NAMES_KEPT - 1 : -1])


def test_an_application_that_will_not_come_back_is_forgotten(coordinator):
    name, who = coordinator.write_attempt(APP, 1, 0)
    with pytest.raises(InvalidTransactionState, match="1 attempts open"):
        coordinator.do(lambda machine: machine.applications.retire(APP))
    coordinator.decide(APP, 1, 0, [(name, who)])
    carry_out(coordinator)
    assert coordinator.do(lambda machine: machine.applications.retire(APP))
    assert coordinator.machine.applications.known == {}
    assert not coordinator.do(lambda machine: machine.applications.retire(APP))
    assert state_of(coordinator.replay()) == state_of(coordinator.machine)


def test_an_attempt_needs_a_run_that_has_started(coordinator):
    with pytest.raises(InvalidTransactionState, match="run 2 of 'app' has not been started"):
        coordinator.start_attempt(APP, 2, 0)


# --- attempts -----------------------------------------------------------------------------------


def test_only_the_attempts_named_are_committed(coordinator):
    first, second = (
        coordinator.write_attempt(APP, 1, 0, task=0),
        coordinator.write_attempt(APP, 1, 0, task=1),
    )
    slow = coordinator.write_attempt(APP, 1, 0, task=1, number=1)
    silent = coordinator.start_attempt(APP, 1, 0, task=2)
    later = coordinator.write_attempt(APP, 1, 1)
    assert silent is not None
    ended = coordinator.decide(APP, 1, 0, [first, second])
    assert ended.aborted == (slow[0],)
    assert states(coordinator) == {
        first[0]: State.PREPARE_COMMIT,
        second[0]: State.PREPARE_COMMIT,
        slow[0]: State.PREPARE_ABORT,
        later[0]: State.ONGOING,
    }


def test_attempts_of_older_versions_are_aborted_with_a_decision(coordinator):
    older = coordinator.write_attempt(APP, 1, 0)
    newer = coordinator.write_attempt(APP, 1, 1)
    assert coordinator.decide(APP, 1, 1, [newer]).aborted == (older[0],)


def test_an_attempt_that_wrote_nothing_may_be_named(coordinator):
    wrote, idle = coordinator.write_attempt(APP, 1, 0), coordinator.start_attempt(APP, 1, 0, task=1)
    assert idle is not None
    assert not coordinator.decide(APP, 1, 0, [wrote, idle]).was_decided
    carry_out(coordinator)
    assert states(coordinator) == {}


def test_a_decided_version_has_no_more_attempts(coordinator):
    coordinator.decide(APP, 1, 3, [])
    assert coordinator.start_attempt(APP, 1, 3) is None
    assert coordinator.start_attempt(APP, 1, 2) is None
    with pytest.raises(VersionGoesBack):
        coordinator.start_attempt(APP, 1, 1)


def test_an_attempt_asked_for_twice_is_two_producers(coordinator):
    name, first = coordinator.write_attempt(APP, 1, 0)
    again = coordinator.start_attempt(APP, 1, 0)
    assert again is not None
    assert again[0] == name
    assert again[1].producer_id != first.producer_id
    with pytest.raises(Exception, match=f"producer {first.producer_id} does not belong"):
        coordinator.add(name, first, A0)
    once_more = coordinator.start_attempt(APP, 1, 0)
    assert once_more is not None
    assert once_more[1] != again[1], "also one that has written nothing"


def test_an_abort_ends_all_attempts_at_its_version(coordinator):
    names = [coordinator.write_attempt(APP, 1, 4, task=task)[0] for task in range(3)]
    coordinator.start_attempt(APP, 1, 4, task=3)
    later = coordinator.write_attempt(APP, 1, 5)
    ended = coordinator.abort_group(APP, 1, 4)
    assert not ended.was_decided
    assert ended.aborted == tuple(names)
    assert states(coordinator) == {
        **dict.fromkeys(names, State.PREPARE_ABORT),
        later[0]: State.ONGOING,
    }
    assert coordinator.abort_group(APP, 1, 4).aborted == ()
    assert not coordinator.decide(APP, 1, 4, []).was_decided, "it may be tried again"


def test_an_abort_after_the_decision_changes_nothing(coordinator):
    attempt = coordinator.write_attempt(APP, 1, 4)
    coordinator.decide(APP, 1, 4, [attempt])
    before = state_of(coordinator.machine)
    assert coordinator.abort_group(APP, 1, 4).was_decided
    assert state_of(coordinator.machine) == before


def test_an_attempt_is_committed_by_its_group_only(coordinator):
    name, who = coordinator.write_attempt(APP, 1, 0)
    with pytest.raises(InvalidTransactionState, match="decision about version 0"):
        coordinator.end(name, who, commits=True)
    with pytest.raises(InvalidTransactionState, match="starts it itself"):
        coordinator.init(name)
    coordinator.end(name, who, commits=False)
    assert states(coordinator) == {name: State.PREPARE_ABORT}
    with pytest.raises(ProducerFenced):
        coordinator.decide(APP, 1, 0, [(name, who)])


@pytest.mark.parametrize(("run", "version"), [(1, 1), (2, 0)])
def test_a_decision_takes_no_attempts_of_another_group(coordinator, run, version):
    attempt = coordinator.write_attempt(APP, 1, 0)
    before = state_of(coordinator.machine)
    with pytest.raises(InvalidTransactionState, match="not an attempt at version"):
        coordinator.decide(APP, run, version, [attempt])
    coordinator.start_run("other", 0)
    with pytest.raises(InvalidTransactionState, match="'other'"):
        coordinator.decide("other", 0, 0, [attempt])
    assert state_of(coordinator.machine)["transactions"] == before["transactions"]


def test_an_attempt_that_takes_too_long_is_aborted_and_its_version_must_be_written_again(
    coordinator,
):
    attempt = coordinator.write_attempt(APP, 1, 0)
    coordinator.now = Timestamp(coordinator.now + 60_000)
    coordinator.do(lambda machine: machine.on_deadline(coordinator.now))
    assert states(coordinator) == {attempt[0]: State.PREPARE_ABORT}
    carry_out(coordinator)
    with pytest.raises(InvalidTransactionState, match="write version 0 again"):
        coordinator.decide(APP, 1, 0, [attempt])


@pytest.mark.parametrize("timeout_ms", [0, ATTEMPT_TIMEOUT_MS_MAX + 1])
def test_an_attempts_time_is_bounded(coordinator, timeout_ms):
    with pytest.raises(InvalidTransactionTimeout):
        coordinator.machine.applications.start_attempt(
            coordinator.now,
            Attempt(APP, 1, 0),
            "x",
            timeout_ms=timeout_ms,
            new_producer_id=1,
        )


# --- what is left -------------------------------------------------------------------------------


def test_nothing_is_left_of_attempts_that_have_ended(coordinator):
    before = len(list(coordinator.machine.snapshot()))
    for version in range(50):
        named = [coordinator.write_attempt(APP, 1, version, task=task) for task in range(2)]
        coordinator.write_attempt(APP, 1, version, task=0, number=1)
        coordinator.start_attempt(APP, 1, version, task=1, number=1)
        coordinator.decide(APP, 1, version, named)
        carry_out(coordinator)
    coordinator.write_attempt(APP, 1, 50)
    coordinator.abort_group(APP, 1, 50)
    carry_out(coordinator)
    assert states(coordinator) == {}
    assert len(list(coordinator.machine.snapshot())) == before
    known = coordinator.machine.applications.find(APP)
    assert known is not None
    assert known.attempts == {}


def test_deadlines_of_what_has_ended_do_not_pile_up(coordinator):
    for version in range(3 * ENTRIES_MIN):
        coordinator.decide(APP, 1, version, [coordinator.write_attempt(APP, 1, version)])
        carry_out(coordinator)
    assert len(coordinator.machine._deadlines._heap) <= ENTRIES_MIN


def test_a_late_write_of_an_attempt_that_has_ended_is_refused(coordinator):
    named, zombie = (
        coordinator.write_attempt(APP, 1, 0),
        coordinator.write_attempt(APP, 1, 0, number=1),
    )
    coordinator.decide(APP, 1, 0, [named])
    for name, who in (named, zombie):
        with pytest.raises(ProducerFenced):
            coordinator.machine.is_in_transaction(name, who, A0)
    carry_out(coordinator)
    for name, who in (named, zombie):
        with pytest.raises(TransactionalIdNotFound):
            coordinator.machine.is_in_transaction(name, who, A0)


def test_an_attempts_markers_carry_the_last_epoch(coordinator):
    named, other = (
        coordinator.write_attempt(APP, 1, 0),
        coordinator.write_attempt(APP, 1, 0, number=1),
    )
    coordinator.decide(APP, 1, 0, [named])
    for name, who in (named, other):
        transaction = coordinator.machine.get(name)
        marker = (transaction.marker_producer_id, transaction.marker_epoch)
        assert marker == (who.producer_id, PRODUCER_EPOCH_MAX)


def test_an_application_that_was_silent_for_long_is_forgotten(coordinator):
    coordinator.decide(APP, 1, 7, [])
    coordinator.start_run("other", 0)
    open_one = coordinator.start_attempt("other", 0, 0)
    coordinator.now = Timestamp(coordinator.now + APPLICATION_IDLE_MS_MAX)
    coordinator.do(lambda machine: machine.on_deadline(coordinator.now))
    assert coordinator.machine.applications.version(APP) == 7
    coordinator.now = Timestamp(coordinator.now + 3_600_001)
    coordinator.do(lambda machine: machine.on_deadline(coordinator.now))
    assert coordinator.machine.applications.find(APP) is None
    assert open_one is not None
    assert state_of(coordinator.replay()) == state_of(coordinator.machine)


def test_records_without_a_time_are_of_applications_that_are_kept():
    """Older versions wrote such."""
    machine = TransactionMachine()
    for data in (
        b'{"type":"run","application":"app","run":3}',
        b'{"type":"application","application":"old","run":1,"version":9}',
    ):
        machine.apply(machine.decode(data))
    machine.on_deadline(Timestamp(10 * APPLICATION_IDLE_MS_MAX))
    assert machine.applications.find_idle(Timestamp(10 * APPLICATION_IDLE_MS_MAX)) == []
    assert machine.applications.version("old") == 9
