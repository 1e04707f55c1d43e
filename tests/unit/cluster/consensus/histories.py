"""What several nodes do with one consensus log, written down for the linearizability checker."""

import asyncio
import math
import random

from goqueue.cluster.consensus import ConsensusLog, Index, Leadership
from goqueue.model.errors import Fenced, QuorumUnavailable, Uncertain
from tests.unit.cluster.consensus.linearizability import Operation, Outcome
from tests.unit.cluster.consensus.quorums import Quorum, read_to


class Recorder:
    """One node that leads, appends and reads as chance has it."""

    def __init__(self, log: ConsensusLog, name: str, seed: str, history: list[Operation]) -> None:
        self._log = log
        self._name = name
        self._random = random.Random(f"{seed}/{name}")
        self._history = history
        self._values = 0

    async def work(self, rounds: int) -> None:
        for _ in range(rounds):
            if self._random.random() < 0.5:
                await self._read()
            else:
                await self._reign()

    async def _read(self) -> None:
        began = _now()
        try:
            end = await self._log.end()
        except QuorumUnavailable:
            return
        found = await read_to(self._log, end)
        # It saw the moment of `end`: what is below never changes.
        self._history.append(Operation(began, _now(), "read", values=tuple(found[:end])))

    async def _reign(self) -> None:
        began = _now()
        try:
            lead = await self._log.lead()
        except QuorumUnavailable:
            self._history.append(Operation(began, math.inf, "lead", "unknown"))
            return
        self._history.append(Operation(began, _now(), "lead", term=lead.term))
        at = lead.end
        for _ in range(self._random.randrange(4)):
            values = self._next_values()
            if await self._append(lead, at, values) != "done":
                return
            at = Index(at + len(values))

    def _next_values(self) -> tuple[bytes, ...]:
        count = self._random.randrange(1, 3)
        self._values += count
        return tuple(f"{self._name}{self._values - n}".encode() for n in range(count))

    async def _append(self, lead: Leadership, at: Index, values: tuple[bytes, ...]) -> Outcome:
        began, ended = _now(), math.inf
        outcome: Outcome = "done"
        try:
            await self._log.append(lead.term, at, values)
            ended = _now()
        except Fenced:
            outcome, ended = "fenced", _now()
        except (Uncertain, QuorumUnavailable):
            outcome = "unknown"
        self._history.append(Operation(began, ended, "append", outcome, lead.term, at, values))
        return outcome


async def record(quorum: Quorum, seed: str, *, nodes: int = 3, rounds: int = 4) -> list[Operation]:
    history: list[Operation] = []
    recorders = [Recorder(quorum.connect(), "abcdef"[n], seed, history) for n in range(nodes)]
    await asyncio.gather(*(each.work(rounds) for each in recorders))
    return history


def _now() -> float:
    return asyncio.get_running_loop().time()
