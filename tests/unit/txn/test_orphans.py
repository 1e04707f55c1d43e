"""Which transactions of a partition's log the coordinator knows, and what became of them."""

import pytest

from goqueue.txn import OpenTransaction, ProducerIdentity
from tests.unit.txn.coordinator import A0, A1, Coordinator


def commit(
    coordinator: Coordinator, who: ProducerIdentity, *, first_offset: int | None, bumps: bool
) -> ProducerIdentity:
    coordinator.add("tx", who, A0)
    after: ProducerIdentity = coordinator.do(
        lambda machine: machine.end(
            coordinator.now,
            "tx",
            who,
            commits=True,
            bumps_epoch=bumps,
            first_offsets=None if first_offset is None else (first_offset,),
        )
    )
    return after


def open_transaction(who: ProducerIdentity, first_offset: int) -> OpenTransaction:
    return OpenTransaction(who.producer_id, who.epoch, first_offset)


def test_an_open_transaction_is_no_orphan_where_it_writes():
    coordinator = Coordinator()
    who = coordinator.init("tx")
    coordinator.add("tx", who, A0)
    found = open_transaction(who, 7)
    assert coordinator.machine.find_orphans(A0, [found]) == []
    assert coordinator.machine.find_orphans(A1, [found]) == [(found, None)]


def test_a_decided_transaction_is_no_orphan_and_the_next_one_is():
    coordinator = Coordinator()
    who = coordinator.init("tx")
    commit(coordinator, who, first_offset=7, bumps=False)
    following = open_transaction(who, 9)
    assert coordinator.machine.find_orphans(A0, [open_transaction(who, 7)]) == []
    assert coordinator.machine.find_orphans(A0, [following]) == [(following, None)]


@pytest.mark.parametrize("begins_next", [False, True])
@pytest.mark.parametrize(("first_offset", "bumps"), [(7, False), (7, True), (None, True)])
def test_a_committed_transaction_is_known_after_its_completion(first_offset, bumps, begins_next):
    coordinator = Coordinator()
    who = coordinator.init("tx")
    after = commit(coordinator, who, first_offset=first_offset, bumps=bumps)
    coordinator.complete("tx")
    if begins_next:
        coordinator.add("tx", after, A0)
    found = open_transaction(who, 7)
    for machine in (coordinator.machine, coordinator.replayed()):
        assert machine.find_orphans(A0, [found]) == [(found, machine.get("tx"))]
        assert machine.find_orphans(A1, [found]) == [(found, None)]


def test_the_transaction_after_a_committed_one_is_not_taken_for_it():
    coordinator = Coordinator()
    who = coordinator.init("tx")
    commit(coordinator, who, first_offset=7, bumps=False)
    coordinator.complete("tx")
    following = open_transaction(who, 9)
    assert coordinator.machine.find_orphans(A0, [following]) == [(following, None)]


def test_where_neither_offset_nor_epoch_tells_them_apart_it_is_not_known():
    coordinator = Coordinator()
    who = coordinator.init("tx")
    commit(coordinator, who, first_offset=None, bumps=False)
    coordinator.complete("tx")
    found = open_transaction(who, 7)
    assert coordinator.machine.find_orphans(A0, [found]) == [(found, None)]
