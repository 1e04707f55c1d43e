"""The machines of several shards, asked as if they were one."""

import pytest

from goqueue.broker.transactions.machines import TransactionMachines
from goqueue.model.errors import NotCoordinator
from goqueue.model.ids import Timestamp, TopicName, TopicPartition
from goqueue.txn import OpenTransaction, ProducerIdentity, TransactionMachine

AT = TopicPartition(TopicName("orders"), 0)


def begun(name: str, producer_id: int, at: int) -> TransactionMachine:
    machine = TransactionMachine()
    for decision in (
        machine.init(Timestamp(at), name, timeout_ms=1_000, new_producer_id=producer_id),
    ):
        for record in decision.records:
            machine.apply(record)
    added = machine.add_partitions(Timestamp(at), name, ProducerIdentity(producer_id, 0), [AT])
    for record in added.records:
        machine.apply(record)
    return machine


def test_an_id_is_asked_of_its_own_machine_and_all_of_every_machine():
    by_name = {"late": begun("late", 1, at=20), "early": begun("early", 2, at=10)}

    def machine_of(name: str) -> TransactionMachine:
        if name not in by_name:
            raise NotCoordinator(name)
        return by_name[name]

    machines = TransactionMachines(machine_of, by_name.values)
    assert machines.get("late").producer_id == 1
    assert machines.check("early", ProducerIdentity(2, 0)).transactional_id == "early"
    assert machines.is_in_transaction("late", ProducerIdentity(1, 0), AT)
    assert [each.transactional_id for each in machines.ongoing] == ["early", "late"]
    assert {each.transactional_id for each in machines.all()} == {"early", "late"}
    assert machines.counts.started == 2
    assert machines.prepared == []
    owner = machines.find_owner(OpenTransaction(2, 0))
    assert owner is not None
    assert owner.transactional_id == "early"
    assert machines.find_owner(OpenTransaction(3, 0)) is None
    assert machines.applications_of("late").find("late") is None
    with pytest.raises(NotCoordinator):
        machines.find("of another node")
