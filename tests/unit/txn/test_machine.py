"""Who may write, and how a transaction ends."""

import pytest

from goqueue.model.ids import PRODUCER_EPOCH_MAX, Timestamp
from goqueue.txn import GroupOffsets, ProducerIdentity, State, TransactionMachine
from goqueue.txn.errors import (
    ConcurrentTransactions,
    InvalidTransactionState,
    InvalidTransactionTimeout,
    ProducerFenced,
    TransactionalIdNotFound,
    UnknownProducer,
)
from goqueue.txn.machine import IDLE_MS_MAX
from tests.unit.txn.coordinator import A0, A1, Coordinator, state_of


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


# --- fencing ----------------------------------------------------------------------------------


def test_a_second_producer_fences_the_first(coordinator):
    first = coordinator.init("tx")
    second = coordinator.init("tx")
    assert second == ProducerIdentity(first.producer_id, first.epoch + 1)
    with pytest.raises(ProducerFenced):
        coordinator.add("tx", first, A0)
    coordinator.add("tx", second, A0)


def test_a_second_producer_aborts_what_the_first_left_open(coordinator):
    first = coordinator.init("tx")
    coordinator.add("tx", first, A0)
    second = coordinator.init("tx")
    transaction = coordinator.machine.get("tx")
    assert transaction.state is State.EMPTY
    assert second.epoch == first.epoch + 2, "one for the abort's markers, one to start with"
    with pytest.raises(ProducerFenced):
        coordinator.end("tx", first)


def test_a_zombie_that_names_its_old_epoch_stays_fenced(coordinator):
    """KIP-360 lets a producer go on after an error, but not when another has started."""
    zombie = coordinator.init("tx")
    owner = coordinator.init("tx")
    with pytest.raises(ProducerFenced):
        coordinator.init("tx", expected=zombie)
    coordinator.add("tx", owner, A0)


def test_a_producer_goes_on_after_an_error_and_after_a_lost_reply(coordinator):
    first = coordinator.init("tx")
    second = coordinator.init("tx", expected=first)
    third = coordinator.init("tx", expected=first)  # the reply with `second` was lost
    assert (second.epoch, third.epoch) == (first.epoch + 1, first.epoch + 2)


def test_a_producer_whose_transaction_timed_out_may_go_on(coordinator):
    who = coordinator.init("tx")
    coordinator.add("tx", who, A0)
    coordinator.now = Timestamp(coordinator.now + 60_000)
    (must_end,) = coordinator.do(lambda machine: machine.on_deadline(coordinator.now))
    assert must_end.transactional_id == "tx"
    with pytest.raises(ProducerFenced):
        coordinator.add("tx", who, A1)
    coordinator.complete("tx")
    assert coordinator.init("tx", expected=who).epoch == who.epoch + 2


def test_strangers_are_told_apart_from_zombies(coordinator):
    who = coordinator.init("tx")
    with pytest.raises(UnknownProducer):
        coordinator.add("tx", ProducerIdentity(who.producer_id + 1, 0), A0)
    with pytest.raises(TransactionalIdNotFound):
        coordinator.add("other", who, A0)


@pytest.mark.parametrize("timeout_ms", [0, -1, 15 * 60_000 + 1])
def test_a_timeout_has_bounds(coordinator, timeout_ms):
    with pytest.raises(InvalidTransactionTimeout):
        coordinator.machine.init(coordinator.now, "tx", timeout_ms=timeout_ms, new_producer_id=1)


# --- ending -----------------------------------------------------------------------------------


def test_each_transaction_has_an_epoch_of_its_own(coordinator):
    who = coordinator.init("tx")
    coordinator.add("tx", who, A0)
    after = coordinator.end("tx", who)
    assert after == ProducerIdentity(who.producer_id, who.epoch + 1)
    assert coordinator.machine.get("tx").marker_epoch == after.epoch
    with pytest.raises(ProducerFenced):
        coordinator.add("tx", who, A0)
    with pytest.raises(ConcurrentTransactions):
        coordinator.add("tx", after, A0)
    coordinator.complete("tx")
    coordinator.add("tx", after, A0)


def test_an_end_may_be_asked_for_again(coordinator):
    who = coordinator.init("tx")
    coordinator.add("tx", who, A0)
    after = coordinator.end("tx", who)
    assert coordinator.end("tx", who) == after
    coordinator.complete("tx")
    assert coordinator.end("tx", who) == after
    with pytest.raises(InvalidTransactionState):
        coordinator.end("tx", who, commits=False)
    coordinator.add("tx", after, A0)
    with pytest.raises(ProducerFenced):
        coordinator.end("tx", who)


def test_without_new_epochs_an_end_may_be_asked_for_again_too(coordinator):
    who = coordinator.init("tx")
    with pytest.raises(InvalidTransactionState):
        coordinator.end("tx", who, bumps=False)
    coordinator.add("tx", who, A0)
    assert coordinator.end("tx", who, bumps=False) == who
    assert coordinator.end("tx", who, bumps=False) == who
    coordinator.complete("tx")
    assert coordinator.end("tx", who, bumps=False) == who
    with pytest.raises(InvalidTransactionState):
        coordinator.end("tx", who, commits=False, bumps=False)


def test_a_producer_may_change_the_protocol_between_transactions(coordinator):
    who = coordinator.init("tx")
    coordinator.add("tx", who, A0)
    assert coordinator.end("tx", who, bumps=False) == who
    coordinator.complete("tx")
    coordinator.add("tx", who, A0)
    assert coordinator.end("tx", who).epoch == who.epoch + 1


def test_an_abort_of_nothing_is_no_mistake_when_it_brings_a_new_epoch(coordinator):
    who = coordinator.init("tx")
    after = coordinator.end("tx", who, commits=False)
    assert after.epoch == who.epoch + 1
    coordinator.complete("tx")
    with pytest.raises(InvalidTransactionState):
        coordinator.end("tx", after, commits=True)


def test_a_decision_is_never_taken_back(coordinator):
    who = coordinator.init("tx")
    coordinator.add("tx", who, A0)
    coordinator.end("tx", who, commits=True)
    coordinator.now = Timestamp(coordinator.now + 3_600_000)
    coordinator.do(lambda machine: machine.on_deadline(coordinator.now))
    assert not coordinator.do(lambda machine: machine.abort(coordinator.now, "tx"))
    assert coordinator.machine.get("tx").state is State.PREPARE_COMMIT


def test_a_deadline_that_was_not_written_stays_due(coordinator):
    who = coordinator.init("tx")
    coordinator.add("tx", who, A0)
    late = Timestamp(coordinator.now + 60_000)
    for _ in range(2):  # the disk was full: nothing of the decision was applied
        decision = coordinator.machine.on_deadline(late)
        assert [each.transactional_id for each in decision.reply] == ["tx"]
    assert coordinator.machine.next_deadline() <= late


def test_a_clock_that_was_set_back_does_not_keep_a_transaction_open(coordinator):
    who = coordinator.init("tx")
    coordinator.add("tx", who, A0)
    for back_ms, due in ((1_000, False), (3_600_000, True)):
        now = Timestamp(coordinator.now - back_ms)
        assert bool(coordinator.machine.on_deadline(now).reply) is due


def test_begin_is_refused_while_a_transaction_is_open(coordinator):
    who = coordinator.init("tx")
    coordinator.do(lambda machine: machine.begin(coordinator.now, "tx", who))
    with pytest.raises(InvalidTransactionState):
        coordinator.do(lambda machine: machine.begin(coordinator.now, "tx", who))
    assert coordinator.end("tx", who).epoch == who.epoch + 1


# --- epochs run out ---------------------------------------------------------------------------


def test_a_producer_gets_a_new_id_when_its_epochs_are_used_up(coordinator):
    who = coordinator.init("tx")
    ids = {who.producer_id}
    for _ in range(PRODUCER_EPOCH_MAX + 5):
        coordinator.add("tx", who, A0)
        before, who = who, coordinator.end("tx", who)
        assert 0 <= who.epoch < PRODUCER_EPOCH_MAX
        assert coordinator.machine.get("tx").marker_epoch == before.epoch + 1
        coordinator.complete("tx")
        ids.add(who.producer_id)
    assert len(ids) == 2


def test_starting_over_and_over_runs_out_of_epochs_too(coordinator):
    identities = [coordinator.init("tx") for _ in range(PRODUCER_EPOCH_MAX + 5)]
    assert len(set(identities)) == len(identities)
    assert max(each.epoch for each in identities) < PRODUCER_EPOCH_MAX


def test_time_outs_at_the_last_epoch_leave_no_way_back_in(coordinator):
    who = coordinator.init("tx")
    for _ in range(PRODUCER_EPOCH_MAX - 1):
        coordinator.add("tx", who, A0)
        who = coordinator.end("tx", who)
        coordinator.complete("tx")
    coordinator.add("tx", who, A0)
    coordinator.now = Timestamp(coordinator.now + 60_000)
    coordinator.do(lambda machine: machine.on_deadline(coordinator.now))
    coordinator.complete("tx")
    with pytest.raises(ProducerFenced):
        coordinator.add("tx", who, A0)
    assert coordinator.init("tx", expected=who).epoch == 0


# --- participants -----------------------------------------------------------------------------


def test_a_group_takes_part_until_the_transaction_is_complete(coordinator):
    who = coordinator.init("tx")
    with pytest.raises(InvalidTransactionState):
        coordinator.do(
            lambda machine: machine.add_group(coordinator.now, "tx", who, "group", is_new=False)
        )
    coordinator.do(lambda machine: machine.add_group(coordinator.now, "tx", who, "group"))
    written = len(coordinator.log)
    coordinator.do(
        lambda machine: machine.add_group(coordinator.now, "tx", who, "group", is_new=False)
    )
    assert len(coordinator.log) == written
    transaction = coordinator.machine.get("tx")
    coordinator.end("tx", who)
    assert transaction.participants == [GroupOffsets("group")]
    coordinator.complete("tx")
    assert transaction.participants == []


@pytest.mark.parametrize("bumps", [False, True])
def test_a_marker_ends_its_own_transaction_and_with_an_epoch_of_its_own_no_other(
    coordinator, bumps
):
    who = coordinator.init("tx")
    coordinator.add("tx", who, A0)
    after = coordinator.end("tx", who, bumps=bumps)
    marker = coordinator.machine.get("tx").marker(coordinator_epoch=4)
    assert (marker.producer_id, marker.coordinator_epoch) == (who.producer_id, 4)
    assert marker.commits
    assert marker.ended_epoch == who.epoch
    assert coordinator.machine.get("tx").shares_epoch is not bumps
    assert (after.epoch > marker.ended_epoch) is bumps


def test_the_marker_of_a_producer_s_last_epoch_is_above_that_of_its_records(coordinator):
    who = coordinator.init("tx")
    while who.epoch < PRODUCER_EPOCH_MAX - 1:
        coordinator.add("tx", who, A0)
        who = coordinator.end("tx", who)
        coordinator.complete("tx")
    coordinator.add("tx", who, A0)
    after = coordinator.end("tx", who)
    marker = coordinator.machine.get("tx").marker(coordinator_epoch=0)
    assert (marker.producer_id, marker.epoch) == (who.producer_id, PRODUCER_EPOCH_MAX)
    assert (marker.ended_epoch, after.epoch) == (who.epoch, 0)
    assert not coordinator.machine.get("tx").shares_epoch


def test_an_older_client_after_a_newer_one_shares_its_epoch_with_nobody_before_it(coordinator):
    who = coordinator.init("tx")
    coordinator.add("tx", who, A0)
    coordinator.end("tx", who, bumps=True)
    coordinator.complete("tx")
    older = coordinator.init("tx")
    transaction = coordinator.machine.get("tx")
    coordinator.add("tx", older, A0)
    assert not transaction.shares_epoch
    coordinator.end("tx", older, bumps=False)
    coordinator.complete("tx")
    coordinator.add("tx", older, A0)
    assert transaction.shares_epoch
    newer = coordinator.end("tx", older, bumps=True)
    coordinator.complete("tx")
    coordinator.add("tx", newer, A0)
    assert not transaction.shares_epoch


# --- keeping ----------------------------------------------------------------------------------


def test_ids_that_nobody_used_for_a_week_are_forgotten(coordinator):
    coordinator.init("idle")
    busy = coordinator.init("busy")
    coordinator.add("busy", busy, A0)
    coordinator.now = Timestamp(coordinator.now + IDLE_MS_MAX + 1)
    coordinator.do(lambda machine: machine.on_deadline(coordinator.now))
    assert coordinator.machine.find("idle") is None
    assert coordinator.machine.find("busy") is not None


def test_a_snapshot_brings_everything_back(coordinator):
    who = coordinator.init("open")
    coordinator.add("open", who, A0, A1)
    coordinator.do(lambda machine: machine.add_group(coordinator.now, "open", who, "group"))
    ended = coordinator.init("ended")
    coordinator.add("ended", ended, A0)
    coordinator.end("ended", ended)
    coordinator.start_run("app", 3)
    coordinator.start_attempt("app", 3, 0)
    restored = TransactionMachine()
    for record in coordinator.machine.snapshot():
        restored.apply(restored.decode(restored.encode(record)))
    assert state_of(restored) == state_of(coordinator.machine)
    assert restored.get("open").participants == [A0, A1, GroupOffsets("group")]
