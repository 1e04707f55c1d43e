"""Participants of a transaction: a marker ends it there, however often it comes."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from goqueue.broker.machine_host import MachineHost
from goqueue.broker.storage.partition import Partition
from goqueue.broker.storage.partition_journal import PartitionJournal
from goqueue.broker.transactions.participants import LocalParticipants
from goqueue.groups import CommitRequest, OffsetToCommit
from goqueue.model.errors import TransactionCoordinatorFenced
from goqueue.model.ids import Epoch, Offset
from goqueue.model.markers import Marker
from goqueue.txn import GroupOffsets, Participant
from tests.unit.broker.transactions.brokers import (
    BILLING,
    ORDERS,
    add_offset,
    committed,
    read,
    running,
    write,
)


@pytest.mark.parametrize("bumps_epoch", [False, True], ids=["same epoch", "own epoch"])
async def test_a_marker_that_comes_again_leaves_the_next_transaction_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bumps_epoch: bool
):
    async with running(tmp_path) as broker:
        transactions = broker.transactions
        sent = note_markers(monkeypatch, transactions._participants)
        first = await transactions.init("tx", timeout_ms=60_000)
        await write(broker, first, b"first")
        await add_offset(broker, first, 1)
        second = await transactions.end("tx", first, commits=True, bumps_epoch=bumps_epoch)
        partition = await write(broker, second, b"second", sequence=0 if bumps_epoch else 1)
        end = partition.log.end_offset
        await transactions._participants.end(ORDERS, sent[-1])
        assert partition.log.end_offset == end
        assert partition.log.producers.open_transactions == {second.producer_id: 2}
        if bumps_epoch:  # else nothing is added to a group before no marker can come
            await add_offset(broker, second, 2)
            await transactions._participants.end(GroupOffsets(BILLING), sent[-1])
            assert ORDERS in broker.groups.host.ahead.pending_offsets.of(BILLING)
        assert committed(broker) == 1
        await transactions.end("tx", second, commits=False, bumps_epoch=bumps_epoch)
        assert await read(broker) == [b"first"]
        assert committed(broker) == 1
        assert ORDERS not in broker.groups.host.ahead.pending_offsets.of(BILLING)


def note_markers(monkeypatch: pytest.MonkeyPatch, participants: LocalParticipants) -> list[Marker]:
    end, sent = participants.end, list[Marker]()

    def noting(participant: Participant, marker: Marker) -> asyncio.Future[None]:
        sent.append(marker)
        return end(participant, marker)

    monkeypatch.setattr(participants, "end", noting)
    return sent


async def test_a_marker_is_known_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with running(tmp_path) as broker:
        sent = note_markers(monkeypatch, broker.transactions._participants)
        who = await broker.transactions.init("tx", timeout_ms=60_000)
        await write(broker, who, b"first")
        await broker.transactions.end("tx", who, commits=True, bumps_epoch=False)
    async with running(tmp_path) as broker:
        partition = await write(broker, who, b"second", sequence=1)
        await broker.transactions._participants.end(ORDERS, sent[-1])
        assert partition.log.producers.open_transactions == {who.producer_id: 2}


async def test_with_the_same_epoch_offsets_are_added_when_the_completion_is_durable(
    tmp_path: Path,
):
    """A group knows transactions by their epoch: a second marker would end the next one."""
    async with running(tmp_path) as broker:
        transactions = broker.transactions
        who = await transactions.init("tx", timeout_ms=60_000)
        await add_offset(broker, who, 1)
        await transactions.end("tx", who, commits=True, bumps_epoch=False)
        log = transactions.host
        assert log._deferred, "that it is complete is not written yet"
        await transactions._wait_completion_durable("tx")
        assert not log._deferred
        assert log._journal.is_committed(Offset(log._journal.end_offset - 1))


async def test_markers_carry_the_epoch_of_the_coordinator_and_older_ones_are_refused(
    tmp_path: Path,
):
    async with running(tmp_path) as broker:
        transactions = broker.transactions
        _lead(transactions.host, Epoch(7))
        who = await transactions.init("tx", timeout_ms=60_000)
        partition = await write(broker, who, b"paid")
        await transactions.end("tx", who, commits=True, bumps_epoch=False)
        producer = partition.log.producers.find(who.producer_id)
        assert producer is not None
        assert producer.coordinator_epoch == 7
        await write(broker, who, b"next", sequence=1)
        late = Marker(who.producer_id, who.epoch, coordinator_epoch=6, commits=True)
        with pytest.raises(TransactionCoordinatorFenced):
            await transactions._participants.end(ORDERS, late)
        assert partition.log.producers.open_transactions, "a coordinator of the past ends nothing"
        await transactions.end("tx", who, commits=False, bumps_epoch=False)
        assert await read(broker) == [b"paid"]


def _lead(host: MachineHost, epoch: Epoch) -> None:
    assert isinstance(host._journal, PartitionJournal)
    host._journal._partition.leader_epoch = epoch


async def test_who_heard_of_the_end_reads_what_it_committed(tmp_path: Path):
    """Although the answer does not wait for the markers."""
    async with running(tmp_path) as broker:
        transactions = broker.transactions
        who = await transactions.init("tx", timeout_ms=60_000)
        await write(broker, who, b"paid")
        await add_offset(broker, who, 1)
        await transactions.end("tx", who, commits=True, bumps_epoch=True, waits_for_markers=False)
        await asyncio.sleep(0)  # as long as it takes to hear the answer
        assert committed(broker) == 1
        assert ORDERS not in broker.groups.host.ahead.pending_offsets.of(BILLING)
        assert await read(broker) == [b"paid"]


async def test_a_plain_commit_after_the_end_is_not_taken_back(tmp_path: Path):
    async with running(tmp_path) as broker:
        transactions = broker.transactions
        who = await transactions.init("tx", timeout_ms=60_000)
        await add_offset(broker, who, 1)
        await transactions.end("tx", who, commits=True, bumps_epoch=True, waits_for_markers=False)
        await broker.groups.commit(_commit_of(5))
        await transactions.wait_ready("tx")
        assert committed(broker) == 5


def _commit_of(offset: int) -> CommitRequest:
    wanted = OffsetToCommit(ORDERS.topic, ORDERS.partition, Offset(offset))
    return CommitRequest(group_id=BILLING, offsets=(wanted,))


async def test_offsets_of_a_transaction_that_no_coordinator_knows_are_dropped(tmp_path: Path):
    """Its beginning was lost with the power, and its offsets were not."""
    async with running(tmp_path) as broker:
        request = msgspec.structs.replace(_commit_of(5), producer_id=4711, producer_epoch=0)
        await broker.groups.commit(request)
        assert ORDERS in broker.groups.host.ahead.pending_offsets.of(BILLING)
    async with running(tmp_path) as broker:
        assert ORDERS not in broker.groups.host.ahead.pending_offsets.of(BILLING)
        assert committed(broker) is None


async def test_an_operator_s_abort_does_not_abort_what_was_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The partition has lost its marker: it gets the one that belongs there."""
    async with running(tmp_path) as broker:
        transactions = broker.transactions
        who = await transactions.init("tx", timeout_ms=60_000)
        partition = await write(broker, who, b"paid")
        with monkeypatch.context() as patch:
            patch.setattr(
                Partition, "append_marker", lambda self, *_: Offset(self.log.end_offset - 1)
            )
            await transactions.end("tx", who, commits=True, bumps_epoch=True)
        assert partition.log.producers.open_transactions
        await transactions.abort_in_partition(who, *ORDERS)
        assert await read(broker) == [b"paid"]


async def test_an_operator_aborts_a_transaction_as_a_whole(tmp_path: Path):
    async with running(tmp_path) as broker:
        transactions = broker.transactions
        who = await transactions.init("tx", timeout_ms=60_000)
        await write(broker, who, b"hanging")
        await add_offset(broker, who, 1)
        await transactions.abort_in_partition(who, *ORDERS)
        assert await read(broker) == []
        assert committed(broker) is None
        assert not transactions.ahead.ongoing
