"""The model of the consensus log is linearizable, although answers are lost and nodes cut off."""

import asyncio

import pytest

from goqueue.cluster.consensus import Entries, Term
from goqueue.testing.sim import World
from goqueue.testing.sim.consensus import SimQuorum
from tests.unit.cluster.consensus.histories import record
from tests.unit.cluster.consensus.linearizability import is_linearizable
from tests.unit.cluster.consensus.quorums import ModelQuorum


def test_histories_are_linearizable(seed: int):
    async def main() -> None:
        quorum = ModelQuorum(seed, lose=0.1)
        trouble = asyncio.ensure_future(cut_now_and_then(quorum))
        history = await record(quorum, str(seed))
        trouble.cancel()
        assert is_linearizable(history), history

    async def cut_now_and_then(quorum: ModelQuorum) -> None:
        while True:
            await asyncio.sleep(world.random.uniform(0.01, 0.5))
            quorum.quorum.cut(f"node {world.random.randrange(1, 4)}")
            await asyncio.sleep(world.random.uniform(0.01, 0.5))
            quorum.quorum.heal()

    with World(seed) as world:
        world.run(main())


class FencesNobody(SimQuorum):
    def append(self, term: Term, entries: Entries) -> None:
        super().append(self.term, Entries(self.end, entries.values))


class ForgetsTheLast(SimQuorum):
    def lead(self, before: Term) -> Term | None:
        del self.batches[-1:]
        return super().lead(before)


class WritesTwice(SimQuorum):
    def append(self, term: Term, entries: Entries) -> None:
        super().append(term, Entries(entries.first, [*entries.values, *entries.values]))


class GivesTermsTwice(SimQuorum):
    def lead(self, before: Term) -> Term | None:
        self.term = Term(max(1, self.term))
        return self.term


@pytest.mark.parametrize("bug", [FencesNobody, ForgetsTheLast, WritesTwice, GivesTermsTwice])
def test_planted_bug_is_found(bug: type[SimQuorum]):
    def is_found(seed: int) -> bool:
        quorum = ModelQuorum(seed, lose=0.1)
        quorum.quorum = bug(seed, lose=0.1)
        with World(seed) as world:
            try:
                return not is_linearizable(world.run(record(quorum, str(seed))))
            except AssertionError:  # the model itself, or the reader, saw it first
                return True

    assert any(is_found(seed) for seed in range(20))
