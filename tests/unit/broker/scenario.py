"""What scenarios on a simulated broker share: its start, its power cuts, and how a command runs."""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

from goqueue.broker import Broker
from goqueue.broker.storage.partition_journal import PartitionJournal
from goqueue.model.config import Config
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import Offset
from goqueue.runtime import Environment
from goqueue.testing.sim.world import World
from tests.scenarios import milliseconds

HOST = "a"
Answer = Coroutine[Any, Any, list[str]] | list[str]


class BrokerScenario:
    def __init__(self, world: World) -> None:
        self.world = world
        self._broker: Broker | None = None
        self._read_to = Offset(0)  # of the log that `records` shows
        self._start()

    async def prepare(self, broker: Broker) -> None:
        """Make the topics and groups that the scenarios take for granted; also after a restart."""
        raise NotImplementedError

    def answer(self, first: str, *rest: str) -> Answer:
        """What the command says."""
        raise NotImplementedError

    @property
    def broker(self) -> Broker:
        assert self._broker is not None
        return self._broker

    def _start(self) -> None:
        self._broker = None
        self.world.start(HOST, self._live)
        self.world.run_until(lambda: self._broker is not None)

    async def _live(self, environment: Environment) -> None:
        async with Broker(environment, Config(data_dir="/data")).running() as broker:
            await self.prepare(broker)
            self._broker = broker
            await asyncio.sleep(10**9)

    def run(self, command: str) -> Iterator[str]:
        """The output of one command."""
        try:
            outcome = self.answer(*command.split())
            yield from outcome if isinstance(outcome, list) else self.world.run(outcome)
        except GoQueueError as error:
            yield f"{type(error).__name__}: {error}"

    async def new_values(self, journal: object) -> list[bytes]:
        """What was written to a log since the last time."""
        assert isinstance(journal, PartitionJournal)
        found = [value async for piece in journal.read(self._read_to) for value in piece.values]
        self._read_to = journal.end_offset
        return found

    # --- commands ---------------------------------------------------------------------------------

    def advance(self, span: str) -> list[str]:
        self.world.run_for(milliseconds(span) / 1000)
        return ["ok"]

    def power(self, _: str) -> list[str]:
        self.world.power_loss(HOST, in_order=True)
        self._start()
        self.world.run_for(1.0)
        return ["ok"]
