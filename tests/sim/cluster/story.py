"""One simulated cluster from one seed: how large it is, who uses it, what breaks, and the end.

    seed ── nodes (3 or 5), who decides (node 1, or whom the nodes elect on a quorum)
         ── clients: some kinds of them at once
         ── faults, while the clients work
         ── all is mended: within `LIVE_SECONDS` every partition has a leader, every replica is in
            sync and has everything; then the clients read all that there is, and judge

`python -m tests.sim.cluster.campaign` tells many of them.
"""

import asyncio
import gc
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from structlog.testing import capture_logs

from goqueue.testing.sim import World
from goqueue.testing.sim.consensus import SimQuorum
from tests.sim.cluster.faults import ALL, Faults, is_whole
from tests.sim.cluster.invariants import Invariants, watching
from tests.sim.cluster.offsets import Offsets
from tests.sim.cluster.queues import QueueWorkers
from tests.sim.cluster.streams import Streams
from tests.sim.cluster.topics import Topics
from tests.sim.cluster.transactions import Transactions
from tests.unit.broker.cluster.cluster_world import NUMBERS, ClusterWorld

LIVE_SECONDS = 30.0
SLOW_SECONDS = 120.0  # where a disk or a link was slow: such a replica stays out for a while
WORK_SECONDS = 120.0  # in which clients are done when nothing breaks any more
LOOK_SECONDS = 0.2
SPLIT_PROBABILITY = 0.05  # frames cut anywhere are tried by tests of connections, at less cost


class Workload(Protocol):
    problems: list[str]

    def prepare(self) -> None: ...
    async def run(self) -> None: ...
    def check_end(self) -> None: ...


KINDS: dict[str, Callable[[ClusterWorld], Workload]] = {
    "streams": Streams,
    "offsets": Offsets,
    "queues": QueueWorkers,
    "topics": Topics,
    "transactions": Transactions,
}


class Story:
    def __init__(
        self,
        seed: int | str,
        *,
        kinds: Sequence[str] | None = None,
        faults: Sequence[str] = ALL,
        hosts: int | None = None,
        elects: bool | None = None,
    ) -> None:
        draw = random.Random(f"{seed}/story")
        count = draw.choice((3, 3, 3, 5)) if hosts is None else hosts
        elects = draw.random() < 0.4 if elects is None else elects
        self.kinds = sorted(draw.sample(sorted(KINDS), 3)) if kinds is None else list(kinds)
        self.world = World(seed)
        self.world.fabric.split_probability = SPLIT_PROBABILITY
        self.nodes = ClusterWorld(
            self.world, tuple(NUMBERS)[:count], SimQuorum(seed) if elects else None
        )
        self.faults = Faults(self.nodes, faults)
        self.invariants: Invariants
        self.workloads: list[Workload] = []

    def tell(self) -> None:
        """Raises `AssertionError` or `SimDeadlock` with what happened."""
        with (
            self._noting_faults(),
            without_collection(),
            capture_logs(),
            self.world,
            watching(self.nodes) as self.invariants,
        ):
            self._begin()
            self.world.run(self._go_on())
            self._end()

    # --- beginning --------------------------------------------------------------------------------

    def _begin(self) -> None:
        nodes = self.nodes
        nodes.start(*nodes.hosts)
        self.world.run_until(lambda: is_whole(nodes), limit_s=60)
        self.workloads = [KINDS[kind](nodes) for kind in self.kinds]
        for each in self.workloads:
            each.prepare()
        self.world.run_until(lambda: is_whole(nodes), limit_s=60)
        self.faults.topics = [str(topic.name) for topic in nodes.controller.topics()]

    async def _go_on(self) -> None:
        looking = asyncio.ensure_future(self._look_on())
        working = asyncio.gather(*(each.run() for each in self.workloads))
        await self.faults.run_while(lambda: not working.done())
        async with asyncio.timeout(WORK_SECONDS):
            await working
        looking.cancel()

    async def _look_on(self) -> None:
        while True:
            for broker in list(self.nodes.brokers.values()):
                self.invariants.check_metadata(broker.metadata)
            await asyncio.sleep(LOOK_SECONDS)

    # --- the end ----------------------------------------------------------------------------------

    def _end(self) -> None:
        self.faults.mend()
        was_slow = any("slow" in line for line in self.faults.history)
        limit = SLOW_SECONDS if was_slow else LIVE_SECONDS
        operator = self.world.loop.create_task(self.faults.undo_late_drains())
        self.world.run_until(self._is_settled, limit_s=limit)
        operator.cancel()
        for each in self.workloads:
            each.check_end()
        problems = [problem for each in self.workloads for problem in each.problems]
        assert not problems, "\n".join(problems)

    def _is_settled(self) -> bool:
        """A leader, all replicas in sync, and none of them behind."""
        nodes = self.nodes
        metadata = nodes.metadata
        if not is_whole(nodes) or metadata is None:
            return False
        return all(
            broker.controller.position == nodes.controller.controller.position
            and all(
                each.log.high_watermark == each.log.end_offset
                for each in broker.partitions.logs()
                if each.leads
            )
            for broker in nodes.brokers.values()
        )

    @contextmanager
    def _noting_faults(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            hosts = "".join(self.nodes.hosts)
            mode = "one voter" if self.nodes.quorum is None else "quorum"
            error.add_note(f"nodes {hosts}, {mode}, {', '.join(self.kinds)}")
            error.add_note("\n".join(self.faults.history[-60:]))
            raise


@contextmanager
def without_collection() -> Iterator[None]:
    """The collector ends forgotten generators at any moment: a seed would not repeat that."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
