"""Bodies are read ahead, each batch once, within a budget."""

from typing import Any

from goqueue.broker.delays.waiting_messages import AheadBudget, WaitingMessages
from tests.unit.broker.delays.delay_world import TOPIC, Bench, delayed, line_of, play


def test_what_was_read_ahead_is_not_read_again():
    async def story(bench: Bench) -> None:
        await bench.publish(TOPIC, *(delayed(b"%d" % n, 60_000) for n in range(30)))
        log, budget = line_of(bench.broker).messages, AheadBudget()
        waiting = WaitingMessages(log, budget, int)
        await waiting.read_ahead(range(0, 30, 3))
        assert budget.used > 0
        await waiting.read_ahead(range(3, 30, 3))  # 0 is not wanted any more
        reads, read = [], log.read

        def note_and_read(*place: Any) -> Any:
            reads.append(place)
            return read(*place)

        log.read = note_and_read  # type: ignore[method-assign, assignment]
        found = await waiting.take([27, 3])
        assert sorted(found) == [3, 27]
        assert not reads
        found = await waiting.take([1, 99])
        assert sorted(found) == [1]
        assert len(reads) == 1
        waiting.close()
        assert budget.used == 0

    play(story)


def test_nothing_more_is_read_ahead_than_the_budget_allows():
    async def story(bench: Bench) -> None:
        for start in range(10):
            await bench.publish(TOPIC, delayed(b"x" * 300_000, 60_000 + start))
        budget = AheadBudget(500_000)
        waiting = WaitingMessages(line_of(bench.broker).messages, budget, int)
        await waiting.read_ahead(range(10))
        assert 500_000 <= budget.used < 1_200_000
        assert len(await waiting.take(range(10))) == 10
        assert budget.used == 0

    play(story)
