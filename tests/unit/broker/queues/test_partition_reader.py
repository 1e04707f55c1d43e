"""Batches that a producer got acknowledged and nobody can decode, or that hold very much."""

import pytest

from goqueue.broker.dlq.browse import DeadLetter
from goqueue.model import batch as batches
from goqueue.model import records as record_blocks
from goqueue.model.batch import SLICE_OBJECTS
from goqueue.model.compression import Codec
from goqueue.model.ids import Offset
from goqueue.model.record import RECORD_HEADERS_MAX, Record
from goqueue.model.records import write_varlong
from goqueue.queue import QueueSettings
from tests import queue_verbs
from tests.unit.broker.queue_world import Bench, numbered, play, values, with_priority

NOW = 1_700_000_000_000
RETRY_AT_ONCE = QueueSettings(backoff_base_ms=0, backoff_max_ms=0, backoff_jitter=0.0)


def assembled(block: bytes, count: int, codec: int = 0) -> bytearray:
    return batches.assemble(
        block,
        base_offset=0,
        last_offset_delta=count - 1,
        base_timestamp=NOW,
        max_timestamp=NOW,
        count=count,
        attributes=codec,
        producer=(-1, -1, -1),
    )


def with_deltas(*deltas: int) -> bytearray:
    records = [Record(delta, NOW, None, b"at %d" % delta) for delta in deltas]
    return assembled(record_blocks.encode_records(records, 0, NOW), len(deltas))


def with_headers(count: int) -> bytearray:
    """One record with so many headers: two bytes each, and compressed next to nothing."""
    body = b"\x00\x00\x00\x01\x01" + write_varlong(count) + b"\x00\x01" * count
    return assembled(write_varlong(len(body)) + body, 1, Codec.GZIP)


def with_garbage(codec: int) -> bytearray:
    """Garbage that says it is compressed."""
    data = assembled(b"garbage, garbage, garbage, garbage", 3)
    data[22] = codec
    batches._renew_checksum(data, 0, len(data))
    return data


UNREADABLE = {
    "headers": (with_headers(RECORD_HEADERS_MAX + 1), 1),
    "zstd": (with_garbage(Codec.ZSTD), 3),
    "gzip": (with_garbage(Codec.GZIP), 3),
    "lengths": (assembled(b"these are not records at all", 3), 3),
    "count": (assembled(record_blocks.encode_records([Record(0, NOW, None, b"v")] * 3), 1), 1),
}


async def append(bench: Bench, data: bytearray) -> None:
    partition = await bench.broker.partition("jobs", 0)
    appended = bench.broker.append(partition, bytearray(data))
    await partition.wait_committed(appended.last_offset)


async def letters(bench: Bench) -> list[DeadLetter]:
    """What is in the dead letters, once all that died is written there."""
    await bench.sleep(1)
    return await bench.queues.dead_letters.browse("jobs")


@pytest.mark.parametrize("kind", UNREADABLE)
def test_what_cannot_be_decoded_is_one_dead_letter_and_stops_nobody(kind: str):
    data, count = UNREADABLE[kind]

    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", b"before")
        await append(bench, data)
        await bench.publish("jobs", b"after")
        assert await bench.drain() == [b"before", b"after"]
        (letter,) = await letters(bench)
        story = letter.history
        assert story is not None
        assert (story.reason, story.offset) == ("unreadable", 1)
        assert f"offsets 1 to {count} cannot be decoded" in story.error
        assert (letter.record.value or b"")[21:] == data[21:]  # as sent, but for offset and epoch
        assert await bench.drain() == []
        assert len(await letters(bench)) == 1

    play(scenario)


def test_records_that_claim_the_offsets_of_another_batch_do_not_get_them():
    async def scenario(bench: Bench) -> None:
        await append(bench, with_deltas(0, 2, 4))
        await bench.publish("jobs", *numbered(3))
        received = await bench.receive(max_messages=10)
        assert values(received) == [b"at 0", *numbered(3)]
        assert [each.record.offset for each in received] == [0, 3, 4, 5]
        await bench.ack(received[:1])
        await bench.ack(received[1:])
        (letter,) = await letters(bench)
        story = letter.history
        assert story is not None
        assert "offsets 1 to 2 cannot be decoded" in story.error

    play(scenario)


def test_a_batch_that_claims_more_messages_than_it_has_gives_those_it_has():
    async def scenario(bench: Bench) -> None:
        block = record_blocks.encode_records([Record(0, NOW, None, b"v" * 99)])
        await append(bench, assembled(block, 9))
        assert await bench.drain() == [b"v" * 99]
        (letter,) = await letters(bench)
        assert letter.history is not None
        assert "offsets 1 to 8 cannot be decoded" in letter.history.error

    play(scenario)


def test_messages_before_the_unreadable_part_of_a_batch_come_again():
    async def scenario(bench: Bench) -> None:
        await append(bench, with_deltas(0, 1, 3, 4))
        received = await bench.receive(max_messages=10)
        assert values(received) == [b"at 0", b"at 1"]
        await queue_verbs.nack(bench.queues, [each.receipt for each in received])
        assert await bench.drain() == [b"at 0", b"at 1"]
        assert len(await letters(bench)) == 1

    play(scenario, settings=RETRY_AT_ONCE)


def test_other_lanes_are_served_beside_an_unreadable_batch():
    async def scenario(bench: Bench) -> None:
        await append(bench, with_garbage(Codec.ZSTD))
        await bench.publish("jobs", with_priority(b"urgent", "critical"), b"normal")
        assert sorted(await bench.drain()) == [b"normal", b"urgent"]
        assert len(await letters(bench)) == 1

    play(scenario)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many records each step of decoding built."""
    counts: list[int] = []
    decode_slice = record_blocks.decode_slice

    def counting(*arguments: object) -> record_blocks.Slice:
        found = decode_slice(*arguments)  # type: ignore[arg-type]  # handed through
        counts.append(len(found[0]))
        return found

    monkeypatch.setattr(record_blocks, "decode_slice", counting)
    return counts


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_queue_decodes_a_large_batch_in_slices(built: list[int], codec: Codec):
    count = 2 * SLICE_OBJECTS + 5
    data = batches.encode([Record(0, NOW, None, None)] * count, codec=codec)

    async def scenario(bench: Bench) -> None:
        await append(bench, data)
        (first,) = await bench.receive(max_messages=1)
        assert first.record.offset == 0
        assert max(built) <= SLICE_OBJECTS
        await bench.ack([first])
        assert len(await bench.drain()) == count - 1
        assert max(built) <= SLICE_OBJECTS

    play(scenario)


def test_a_read_decodes_no_more_than_was_asked_for(built: list[int]):
    data = batches.encode([Record(0, NOW, None, b"%d" % number) for number in range(5_000)])

    async def scenario(bench: Bench) -> None:
        await append(bench, data)
        partition = await bench.broker.partition("jobs", 0)
        page = await bench.messages.read(partition, Offset(4_000), limit=3, bytes_max=10_000)
        assert [each.value for each in page.records] == [b"4000", b"4001", b"4002"]
        assert page.next_offset == 4_003
        assert sum(built) == 3

    play(scenario)
