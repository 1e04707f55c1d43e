"""Which ledgers a group has, and when all of them are settled."""

import pytest

from goqueue.broker.queues.state import NO_DEAD_LETTERS
from goqueue.model.errors import StorageFailed
from goqueue.model.ids import GroupId, TopicName
from goqueue.queue import Where
from goqueue.testing.sim import SimDisk
from tests.unit.broker.queue_world import Bench, numbered, play

WORKERS = GroupId("workers")


def where(topic: str, group: str = "workers") -> Where:
    return Where(GroupId(group), TopicName(topic), 0)


def test_a_group_has_the_ledgers_that_it_began_in():
    async def scenario(bench: Bench) -> None:
        state = bench.queues._state
        await bench.broker.create_topic("other", partitions=1)
        assert state.ledgers_of(WORKERS) == []
        await bench.receive("jobs")
        await bench.receive("other")
        jobs, other = (state.ledgers.find(topic, 0) for topic in ("jobs", "other"))
        assert set(state.ledgers_of(WORKERS)) == {jobs, other}
        assert state.ledgers_of(WORKERS, "other") == [other]
        assert state.ledgers_of(GroupId("strangers")) == []
        assert state.state(where("jobs", "strangers")) is None

    play(scenario)


def test_a_state_of_a_deleted_topic_is_in_no_ledger():
    async def scenario(bench: Bench) -> None:
        state = bench.queues._state
        await bench.receive("jobs")
        before = state.state(where("jobs"))
        assert before is not None
        assert state.ledger_of(before) is state.ledgers.find("jobs", 0)
        await bench.broker.delete_topic("jobs")
        assert state.ledger_of(before) is None
        await bench.broker.create_topic("jobs", partitions=1)
        await bench.receive("jobs")
        assert state.ledger_of(before) is None, "the next topic of the name has another one"

    play(scenario)


def test_a_partition_without_a_ledger_has_no_dead_letters():
    async def scenario(bench: Bench) -> None:
        assert bench.queues._state.dead_letters("jobs.dlq", 0) is NO_DEAD_LETTERS

    play(scenario)


def test_one_ledger_that_cannot_be_synced_leaves_queues_unsettled():
    async def scenario(bench: Bench) -> None:
        state, disk = bench.queues._state, bench.broker.environment.disk
        assert isinstance(disk, SimDisk)
        await bench.broker.create_topic("other", partitions=1)
        await bench.publish("jobs", *numbered(2))
        await bench.publish("other", *numbered(2))
        await bench.receive("jobs")
        await bench.receive("other")
        await state.wait_settled()
        disk.fail_sync("/data/logs/other/0/ledger/*.log", times=None)
        for topic in ("jobs", "other"):
            ledger = state.ledgers.find(topic, 0)
            assert ledger is not None
            ledger.write(lambda machine: machine.forget_group(WORKERS))
        with pytest.raises(StorageFailed):
            await state.wait_settled()

    play(scenario)
