"""A commit that does not come in time: who waited is told, and what was written stays."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
import pytest
from kio.schema.errors import ErrorCode

from goqueue.broker import Broker
from goqueue.cluster.replication import Leader
from goqueue.model.config import Config, HttpConfig, StorageConfig
from goqueue.model.errors import NotEnoughReplicasAfterAppend, TimedOut
from goqueue.model.ids import Epoch, NodeId
from goqueue.server.http.errors import refusal
from goqueue.server.kafka.errors import kafka_code
from goqueue.testing.sim import SimDisk, World, run
from tests.unit.broker.brokers import NODE, LonePartition, append, values_in
from tests.unit.server.kafka.asking import produce

T = TypeVar("T")
CONFIG = Config(
    data_dir="/data",
    http=HttpConfig(publish_timeout_ms=2_000),
    storage=StorageConfig(free_bytes_min=0),
)


class StuckDisk(SimDisk):
    """Nothing that is asked of it in the background is done while it is stuck."""

    def __init__(self, seed: int | str = 0) -> None:
        super().__init__(seed)
        self._free = asyncio.Event()
        self._free.set()

    def stick(self) -> None:
        self._free.clear()

    def free(self) -> None:
        self._free.set()

    def in_background(self, work: Callable[[], T]) -> asyncio.Future[T]:
        if self._free.is_set():
            return super().in_background(work)

        async def later() -> T:
            await self._free.wait()
            return await SimDisk.in_background(self, work)

        return asyncio.ensure_future(later())  # rule-ok: a test's disk


def test_a_wait_ends_when_its_time_is_over_and_the_others_go_on():
    async def story() -> None:
        disk = StuckDisk()
        partition = LonePartition(disk)
        disk.stick()
        now = asyncio.get_running_loop().time()
        last = append(partition, "one").last_offset
        short, long = partition.wait_committed(last, 1.0), partition.wait_committed(last, 5.0)
        patient = partition.wait_committed(last)
        gone = partition.wait_committed(last, 1.0)
        gone.cancel()
        assert partition.waits == 1, "it is said once that somebody waits"
        assert partition.end_overdue(now + 0.9)
        assert not short.done()
        assert partition.end_overdue(now + 1.1)
        with pytest.raises(TimedOut, match="offset 0 of topic-0"):
            await short
        assert not long.done()
        disk.free()
        await asyncio.gather(long, patient)
        assert not partition.end_overdue(now + 9), "nobody is left"
        assert await values_in(partition) == ["one"]
        await partition.wait_committed(append(partition, "two").last_offset, 1.0)
        assert partition.waits == 2

    run(story(), seed=0)


def test_with_too_few_in_sync_the_time_out_says_so():
    async def story() -> None:
        partition = LonePartition(SimDisk(), **{"min.insync.replicas": "2"})
        other = NodeId(2)
        both = Leader(
            node=NODE, epoch=Epoch(1), replicas=(NODE, other), isr=frozenset((NODE, other))
        )
        partition.take_role(both)
        partition.check_enough_replicas()
        wait = partition.wait_committed(append(partition, "one").last_offset, 1.0)
        partition.take_role(
            Leader(node=NODE, epoch=Epoch(1), replicas=(NODE, other), isr=frozenset((NODE,)))
        )
        partition.end_overdue(asyncio.get_running_loop().time() + 1.1)
        with pytest.raises(NotEnoughReplicasAfterAppend) as late:
            await wait
        assert kafka_code(late.value) is ErrorCode.not_enough_replicas_after_append
        assert refusal(late.value).status_code == 504

    run(story(), seed=0)


# --- through the broker ---------------------------------------------------------------------------


def stuck_broker(story: Callable[[Broker, StuckDisk], Awaitable[None]]) -> None:
    world = World(0)

    async def main() -> None:
        disk = StuckDisk()
        environment = msgspec.structs.replace(world.environment("a"), disk=disk)
        async with Broker(environment, CONFIG).running() as broker:
            await broker.create_topic("t", partitions=1)
            await produce(broker, "t")
            try:
                await asyncio.wait_for(story(broker, disk), 60)
            finally:
                disk.free()

    world.run(main())


def elapsed(since: float) -> float:
    return asyncio.get_running_loop().time() - since


def test_a_produce_is_answered_within_the_time_that_its_client_gave():
    async def story(broker: Broker, disk: StuckDisk) -> None:
        disk.stick()
        start = asyncio.get_running_loop().time()
        patient = asyncio.ensure_future(produce(broker, "t", timeout_ms=60_000))  # rule-ok: awaited
        late = await produce(broker, "t", timeout_ms=700)
        assert late.error_code is ErrorCode.request_timed_out
        assert "may still be" in late.error_message
        assert 0.7 <= elapsed(start) < 0.9
        assert (await produce(broker, "t", acks=1, timeout_ms=0)).error_code is ErrorCode.none
        assert not patient.done()
        disk.free()
        assert (await patient).error_code is ErrorCode.none
        partition = await broker.partition("t", 0)
        await partition.flush()
        assert await values_in(partition) == ["x"] * 4, "nothing that was written is taken back"

    stuck_broker(story)


def test_a_produce_is_answered_although_its_transaction_cannot_be_noted():
    async def story(broker: Broker, disk: StuckDisk) -> None:
        who = await broker.transactions.init("writer", timeout_ms=60_000)
        disk.stick()
        start = asyncio.get_running_loop().time()
        late = await produce(broker, "t", timeout_ms=700, transaction=("writer", who))
        assert late.error_code is ErrorCode.request_timed_out
        assert elapsed(start) < 0.9

    stuck_broker(story)
