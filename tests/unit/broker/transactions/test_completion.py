"""The end of a transaction: its states, and what readers see after it."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from goqueue.broker import Broker
from goqueue.broker.groups.coordinator import Groups
from goqueue.broker.messages.read import read_page
from goqueue.broker.transactions import completion
from goqueue.broker.transactions.completion import EndState, TransactionEnd
from goqueue.groups import CommitRequest, OffsetToCommit
from goqueue.model.config import Config
from goqueue.model.errors import StorageFailed
from goqueue.model.ids import GroupId, Offset, TopicName, TopicPartition
from goqueue.model.markers import Marker
from goqueue.runtime import Environment, real_environment
from goqueue.server.kafka.produce import handle_produce
from goqueue.server.kafka.reply import ReplySlot
from goqueue.testing.sim.world import World
from goqueue.txn import ProducerIdentity, Transaction
from goqueue.wire.apis import ApiKey
from goqueue.wire.client_codec import OutgoingBatches, encode_produce
from goqueue.wire.frames import RequestHeader
from tests.sim.transaction_world import batch_of
from tests.unit.server.kafka.asking import access_of


async def test_a_reader_that_reads_after_the_end_sees_what_was_committed(tmp_path: Path):
    environment = real_environment()
    with contextlib.closing(environment.disk):
        async with Broker(environment, Config(data_dir=str(tmp_path))).running() as broker:
            await broker.create_topic("orders", partitions=1)
            partition = await broker.partition("orders", 0)
            transactions = broker.transactions
            who = await transactions.init("tx", timeout_ms=5_000)
            for number in range(10):
                value = b"%d" % number
                await transactions.wait_ready("tx")
                transactions.admit("tx", who, TopicPartition(TopicName("orders"), 0), adds=True)
                appended = broker.append(partition, batch_of(broker, who, number, value))
                await partition.wait_committed(appended.last_offset)
                await transactions.end("tx", who, commits=True, bumps_epoch=False)
                page = await read_page(
                    partition, Offset(appended.last_offset), limit=10, bytes_max=10_000
                )
                assert [record.value for record in page.records] == [value]


async def produce(
    broker: Broker, who: ProducerIdentity, sequence: int, value: bytes, *, acks: int
) -> None:
    """Return when the answer of a Produce is there."""
    batch = OutgoingBatches("orders", 0, [batch_of(broker, who, sequence, value)])
    body = b"".join(encode_produce("tx", acks, 1_000, [batch]))
    header = RequestHeader(ApiKey.PRODUCE, 12, 1, None, True, memoryview(bytearray(body)))
    answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    slot = ReplySlot(header, 0.0, lambda _: answered.set_result(None))
    await handle_produce(broker, access_of(broker), header, slot)
    await answered


def test_a_power_cut_takes_nothing_of_a_transaction_that_was_committed(seed: int):
    """Also when its records were written with acks=1, and nobody waited for the disk."""
    told: list[bytes] = []

    async def write(environment: Environment) -> None:
        async with Broker(environment, Config(data_dir="/data")).running() as broker:
            await broker.create_topic("orders", partitions=1)
            transactions = broker.transactions
            who = await transactions.init("tx", timeout_ms=5_000)
            for number in range(3):
                value = b"%d" % number
                await produce(broker, who, number, value, acks=1)
                await transactions.end("tx", who, commits=True, bumps_epoch=False)
                told.append(value)
                if number == seed % 3:
                    break
            await environment.clock.sleep(1_000)

    async def read(environment: Environment) -> list[bytes | None]:
        async with Broker(environment, Config(data_dir="/data")).running() as broker:
            await environment.clock.sleep(2)
            partition = await broker.partition("orders", 0)
            page = await read_page(partition, Offset(0), limit=10, bytes_max=10_000)
            return [record.value for record in page.records]

    with World(seed) as world:
        world.disk("a").slow_syncs(0.001, 0.2)
        world.start("a", write)
        world.run_until(lambda: len(told) == seed % 3 + 1)
        world.power_loss("a")
        assert world.run(read(world.environment("a"))) == told


async def test_a_marker_is_sent_again_only_to_who_did_not_confirm_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Offsets could not be committed at first: the partition gets no second marker."""
    end_transaction, failures = Groups.end_transaction, iter([True])

    def fail_once(self: Groups, group_id: GroupId, marker: Marker) -> asyncio.Future[None]:
        if next(failures, False):
            raise StorageFailed("no luck this time")
        return end_transaction(self, group_id, marker)

    monkeypatch.setattr(Groups, "end_transaction", fail_once)
    monkeypatch.setattr(completion, "RETRY_SECONDS", 0.001)
    environment = real_environment()
    with contextlib.closing(environment.disk):
        async with Broker(environment, Config(data_dir=str(tmp_path))).running() as broker:
            await broker.create_topic("orders", partitions=1)
            partition = await broker.partition("orders", 0)
            transactions = broker.transactions
            who = await transactions.init("tx", timeout_ms=5_000)
            transactions.admit("tx", who, TopicPartition(TopicName("orders"), 0), adds=True)
            broker.append(partition, batch_of(broker, who, 0, b"paid"))
            offset = OffsetToCommit(TopicName("orders"), 0, Offset(1))
            request = CommitRequest(group_id=GroupId("billing"), offsets=(offset,))
            await transactions.add_offsets("tx", who, request, adds_group=True)
            await transactions.end("tx", who, commits=True, bumps_epoch=False)
            assert not transactions.ahead.prepared
            assert len(broker.groups.committed_offsets(GroupId("billing"))) == 1
            assert partition.log.end_offset == 2, "one record and one marker"


async def test_waiting_for_a_state_ends_when_the_broker_stops():
    end = TransactionEnd(Transaction("tx"))
    waiting = asyncio.ensure_future(end.wait_complete())
    await asyncio.sleep(0)
    end.move_to(EndState.MARKING)
    await asyncio.sleep(0)
    assert not waiting.done()
    end.is_stopped = True
    end.wake()
    assert await waiting is False


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "abort"])
def test_an_end_is_completed_although_its_client_is_gone(commits: bool):
    """Else its records would hold back read_committed readers until somebody uses the id again."""
    seen: list[list[bytes | None]] = []

    async def write(environment: Environment) -> None:
        async with Broker(environment, Config(data_dir="/data")).running() as broker:
            await broker.create_topic("orders", partitions=1)
            partition = await broker.partition("orders", 0)
            transactions = broker.transactions
            who = await transactions.init("tx", timeout_ms=5_000)
            transactions.admit("tx", who, TopicPartition(TopicName("orders"), 0), adds=True)
            await partition.wait_committed(
                broker.append(partition, batch_of(broker, who, 0, b"paid")).last_offset
            )
            ending = asyncio.ensure_future(
                transactions.end("tx", who, commits=commits, bumps_epoch=False)
            )
            for _ in range(1_000):
                if transactions.ahead.prepared:
                    break
                await environment.clock.sleep(0.001)
            ending.cancel()
            await environment.clock.sleep(5)
            assert ending.cancelled()
            assert not transactions.ahead.prepared
            page = await read_page(partition, Offset(0), limit=10, bytes_max=10_000)
            assert page.next_offset == 2, "behind the record and its marker"
            seen.append([record.value for record in page.records])

    with World(1) as world:
        world.disk("a").slow_syncs(0.1, 0.2)
        world.start("a", write)
        world.run_until(lambda: bool(seen))
    assert seen == [[b"paid"] if commits else []]
