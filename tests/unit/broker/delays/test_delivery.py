"""What is due is written once: while the disk is full, and when only a part was noted."""

from goqueue.model.errors import DiskFull
from tests.unit.broker.delays.delay_world import (
    TOPIC,
    Bench,
    delayed,
    line_of,
    play,
    read,
    values,
    waiting,
)


def test_on_a_full_disk_messages_wait_and_none_is_lost():
    async def story(bench: Bench) -> None:
        await bench.publish(TOPIC, delayed(b"a", 1000), delayed(b"b", 1000))
        room, refusals = bench.broker.partitions.room, []

        def refuse(size: int) -> None:
            refusals.append(size)
            raise DiskFull("no room")

        line_of(bench.broker)._delivery._take_room = refuse
        await bench.sleep(3)
        assert refusals
        assert await values(bench.broker) == []
        assert len(await waiting(bench.broker)) == 2
        line_of(bench.broker)._delivery._take_room = room.take
        await bench.sleep(3)
        assert await values(bench.broker) == [b"a", b"b"]

    play(story)


def test_a_message_may_be_as_large_as_the_topic_allows():
    async def story(bench: Bench) -> None:
        large = [delayed(b"%d" % n + b"x" * 900_000, 1000) for n in range(3)]
        await bench.publish(TOPIC, *large)
        await bench.sleep(3)
        assert [each[:1] for each in await values(bench.broker)] == [b"0", b"1", b"2"]

    play(story)


def test_very_many_batches_are_never_in_doubt_at_once():
    async def story(bench: Bench) -> None:
        for n in range(40):
            await bench.publish(TOPIC, delayed(b"%d" % n, 1000 + 15 * n))
        await bench.sleep(5)
        assert [int(each) for each in await values(bench.broker)] == list(range(40))
        line = line_of(bench.broker)
        assert len(line._delivery._in_doubt) <= 4
        producer = line.data.log.producers.find(2**63 - 1)
        assert producer is not None
        assert producer.batches[-1].last_sequence == 39

    play(story)


def test_a_message_that_is_gone_from_the_delay_log_is_told_and_left_out():
    async def story(bench: Bench) -> None:
        await bench.publish(TOPIC, delayed(b"a", 1000), delayed(b"b", 2000))
        line = line_of(bench.broker)
        await line.index()
        line._waiting.close()
        await line.messages.remove_before(1)  # type: ignore[arg-type]
        await bench.sleep(3)
        assert [each.value for each in await read(bench.broker)] == [b"b"]
        assert not await waiting(bench.broker)

    play(story)
