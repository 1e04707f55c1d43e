"""A producer whose batch was refused sends the later ones after it, whenever they arrive."""

import pytest

from goqueue.broker.storage.refused_producers import (
    KEPT_SECONDS,
    PRODUCERS_MAX,
    RefusedProducers,
)
from goqueue.model import batch as batches
from goqueue.model.batch import BatchHeader
from goqueue.model.errors import DiskFull, NotEnoughReplicas, OutOfOrderSequence
from goqueue.model.record import Record
from goqueue.testing.sim import SimDisk
from tests.unit.broker.brokers import NOW, LonePartition
from tests.unit.broker.storage.test_partition import told

FULL = DiskFull("no room")


def batch(sequence: int, *, producer_id: int = 7, epoch: int = 0) -> bytearray:
    return batches.encode([Record(0, NOW, None, b"x")], producer=(producer_id, epoch, sequence))


def header(sequence: int, *, producer_id: int = 7, epoch: int = 0) -> BatchHeader:
    return batches.header_at(batch(sequence, producer_id=producer_id, epoch=epoch), 0)


def append(partition: LonePartition, sequence: int) -> int:
    data = batch(sequence)
    return partition.append(data, [batches.header_at(data, 0)], NOW).first_offset


@pytest.mark.parametrize("written", [0, 3])
def test_a_later_batch_is_refused_like_the_one_before_it(written: int):
    """Of a producer that is new here, too: else its first batch would never be taken."""

    async def story(disk: SimDisk) -> None:
        partition = LonePartition(disk)
        for sequence in range(written):
            append(partition, sequence)
        partition.note_refused(header(written), FULL)
        for later in (written + 1, written + 2):
            with pytest.raises(DiskFull, match="an earlier batch of producer 7 was refused"):
                append(partition, later)
        assert [append(partition, written + each) for each in range(3)] == [
            written,
            written + 1,
            written + 2,
        ]

    told(story)


def test_the_disk_itself_refuses_and_the_next_batch_fits():
    async def story(disk: SimDisk) -> None:
        partition = LonePartition(disk)
        append(partition, 0)
        disk.fill_up(0)
        with pytest.raises(DiskFull):
            append(partition, 1)
        disk.make_room()
        with pytest.raises(DiskFull, match="an earlier batch"):
            append(partition, 2)
        append(partition, 1)
        append(partition, 2)

    told(story)


def test_a_gap_that_is_the_producers_own_is_told_as_such():
    async def story(disk: SimDisk) -> None:
        partition = LonePartition(disk)
        append(partition, 0)
        partition.note_refused(header(5, producer_id=8), FULL)
        with pytest.raises(OutOfOrderSequence):
            append(partition, 2)

    told(story)


def test_it_is_forgotten_after_a_while_and_with_a_newer_epoch():
    refused = RefusedProducers()
    refused.note(header(3), NotEnoughReplicas("one of three"), 0.0)
    with pytest.raises(NotEnoughReplicas):
        refused.check(header(4), KEPT_SECONDS)
    refused.check(header(4), KEPT_SECONDS + 0.1)
    refused.note(header(3), FULL, 0.0)
    refused.check(header(0, epoch=1), 0.0)
    refused.check(header(4), 0.0)


def test_the_first_refused_batch_decides_also_when_sequences_begin_again():
    refused = RefusedProducers()
    refused.note(header(2**31 - 1), FULL, 0.0)
    refused.note(header(0), FULL, 1.0)
    for sequence in (0, 1):
        with pytest.raises(DiskFull):
            refused.check(header(sequence), 2.0)
    refused.check(header(2**31 - 2), 2.0)  # a repeat of an earlier one
    refused.note_appended(header(2**31 - 1))
    refused.check(header(0), 2.0)


def test_a_producer_without_sequences_is_not_noted_and_only_so_many_are():
    refused = RefusedProducers()
    refused.note(header(-1, producer_id=-1, epoch=-1), FULL, 0.0)
    assert not refused
    for each in range(PRODUCERS_MAX + 1):
        refused.note(header(0, producer_id=each), FULL, 0.0)
    refused.check(header(1, producer_id=0), 0.0)
    with pytest.raises(DiskFull):
        refused.check(header(1, producer_id=1), 0.0)
