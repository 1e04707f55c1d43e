"""Which transactions of a partition's log the coordinator knows, and what became of them."""

import pytest

from goqueue.txn import OpenTransaction, ProducerIdentity
from tests.unit.txn.coordinator import A0, A1, Coordinator


def commit(coordinator: Coordinator, who: ProducerIdentity, *, bumps: bool) -> ProducerIdentity:
    coordinator.add("tx", who, A0)
    return coordinator.end("tx", who, bumps=bumps)


def open_transaction(who: ProducerIdentity) -> OpenTransaction:
    return OpenTransaction(who.producer_id, who.epoch)


def test_an_open_transaction_is_no_orphan_where_it_writes():
    coordinator = Coordinator()
    who = coordinator.init("tx")
    coordinator.add("tx", who, A0)
    found = open_transaction(who)
    assert coordinator.machine.find_orphans(A0, [found]) == []
    assert coordinator.machine.find_orphans(A1, [found]) == [(found, None)]


@pytest.mark.parametrize("bumps", [False, True])
def test_a_decided_transaction_is_no_orphan(bumps):
    coordinator = Coordinator()
    who = coordinator.init("tx")
    commit(coordinator, who, bumps=bumps)
    assert coordinator.machine.find_orphans(A0, [open_transaction(who)]) == []


def test_the_transaction_after_a_decided_one_is_an_orphan_by_its_epoch():
    coordinator = Coordinator()
    following = open_transaction(commit(coordinator, coordinator.init("tx"), bumps=True))
    assert coordinator.machine.find_orphans(A0, [following]) == [(following, None)]
    coordinator.complete("tx")
    assert coordinator.machine.find_orphans(A0, [following]) == [(following, None)]


@pytest.mark.parametrize("begins_next", [False, True])
@pytest.mark.parametrize("bumps", [False, True])
def test_a_committed_transaction_is_known_after_its_completion(bumps, begins_next):
    coordinator = Coordinator()
    who = coordinator.init("tx")
    after = commit(coordinator, who, bumps=bumps)
    coordinator.complete("tx")
    if begins_next:
        coordinator.add("tx", after, A0)
    found = open_transaction(who)
    for machine in (coordinator.machine, coordinator.replay()):
        assert machine.find_orphans(A0, [found]) == [(found, machine.get("tx"))]
        assert machine.find_orphans(A1, [found]) == [(found, None)]


def test_a_committed_transaction_is_known_after_the_next_producer_has_started():
    coordinator = Coordinator()
    who = coordinator.init("tx")
    commit(coordinator, who, bumps=False)
    coordinator.complete("tx")
    coordinator.init("tx")
    found = open_transaction(who)
    assert coordinator.machine.find_orphans(A0, [found]) == [(found, coordinator.machine.get("tx"))]


def test_with_the_same_epoch_the_next_transaction_is_told_apart_by_the_last_marker():
    """The partition has the committed one's marker: what is open is the next one's."""
    coordinator = Coordinator()
    who = coordinator.init("tx")
    commit(coordinator, who, bumps=False)
    decided_at = coordinator.machine.get("tx").marker(0).decided_at
    found = OpenTransaction(who.producer_id, who.epoch, ended_at=decided_at)
    assert coordinator.machine.find_orphans(A0, [found]) == [(found, None)]
    coordinator.complete("tx")
    for machine in (coordinator.machine, coordinator.replay()):
        assert machine.find_orphans(A0, [found]) == [(found, None)]
    coordinator.add("tx", who, A0)
    assert coordinator.machine.find_orphans(A0, [found]) == []


def test_no_two_decisions_about_a_producer_have_the_same_time():
    coordinator = Coordinator()
    who = coordinator.init("tx")
    times = []
    for _ in range(3):
        commit(coordinator, who, bumps=False)
        times.append(coordinator.machine.get("tx").marker(0).decided_at)
        coordinator.complete("tx")
    assert len(set(times)) == 3
