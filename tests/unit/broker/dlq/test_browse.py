"""Dead letters: what is in them, and how they come back."""

import pytest

from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.model.errors import TopicNotFound
from tests import queue_verbs
from tests.unit.broker.queue_world import Bench, play


async def reject_all(bench: Bench, reason: str = "bad") -> None:
    while some := await bench.receive(max_messages=1000):
        await queue_verbs.reject(bench.queues, [each.receipt for each in some], reason=reason)
    await bench.sleep(1)


def test_browsing_goes_page_by_page_and_purging_empties():
    async def scenario(bench: Bench) -> None:
        letters = bench.queues.dead_letters
        assert await letters.count("jobs") == 0
        assert await letters.browse("jobs") == []
        with pytest.raises(TopicNotFound):
            await letters.browse("nowhere")
        for index in range(3):
            some = (OutgoingMessage(b"%d" % n, partition=index) for n in range(10))
            await bench.publish("jobs", *some)
        await reject_all(bench)
        seen: list[tuple[int, int]] = []
        after: tuple[int, int] | None = None
        while page := await letters.browse("jobs", limit=7, after=after):
            seen += [(each.partition, each.dlq_offset) for each in page]
            after = seen[-1]
        assert seen == [(index, offset) for index in range(3) for offset in range(10)]
        assert await letters.purge("jobs") == 30
        assert await letters.count("jobs") == 0
        assert await letters.browse("jobs") == []
        await bench.publish("jobs", b"new")
        await reject_all(bench)
        assert await letters.count("jobs") == 1

    play(scenario, partitions=3)
