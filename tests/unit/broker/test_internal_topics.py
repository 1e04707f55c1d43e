"""Machines on the logs of the broker's own topics."""

import pytest

from goqueue.broker import Broker, Partition
from goqueue.cluster.replication import Follower
from goqueue.model.errors import CorruptData, NotCoordinator
from goqueue.model.ids import Epoch, NodeId
from goqueue.model.settings import TopicSettings
from goqueue.txn import TransactionMachine
from tests.unit.broker.brokers import play


def test_damage_is_told_with_the_name_of_the_log_and_what_to_do():
    async def story(broker: Broker) -> None:
        with (
            pytest.raises(CorruptData, match=r"__ledgers, .*: bad CRC.*goqueue doctor --data-dir"),
            broker._internal.naming_damage("__ledgers"),
        ):
            raise CorruptData("bad CRC")

    play(story)


def test_a_log_that_another_node_leads_has_no_machine_here(monkeypatch: pytest.MonkeyPatch):
    async def story(broker: Broker) -> None:
        partition, _ = await broker._internal.open("__own")
        partition.take_role(Follower(NodeId(2), Epoch(1)))

        async def find(_topic: str, _settings: TopicSettings) -> Partition:
            return partition

        monkeypatch.setattr(broker.partitions, "internal", find)
        with pytest.raises(NotCoordinator, match="new leader"):
            await broker._internal.open_host("__own", TransactionMachine())

    play(story)
