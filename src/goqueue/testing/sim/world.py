"""Everything at once, from one seed: time, hosts with their clocks and disks, and the wire.

    with World(seed) as world:
        world.start("a", server)                    # async def server(environment) -> None
        world.run(client(world.environment("b")))
        world.power_loss("a")
        world.start("a", server)
        world.run_until(lambda: recovered())

What `start` begins is a process of that host, with a life of its own: after `power_loss` or
`kill` nothing of it runs again, and its host comes back with what its disk kept.  Between `pause`
and `resume` it stands still.  What `run` is
given is the test itself, and never dies, whatever environment it uses; if the disk of a host
without a process dies under it (`crash_at`), `run` raises `SimCrash`.

An error that leaves the world carries a note with the seed that repeats it.  Sets of texts have
another order in each Python process unless PYTHONHASHSEED is given: where code leans on such an
order, a seed does not repeat it, and the code is wrong.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine, Iterator
from contextvars import copy_context
from typing import Any, TypeVar

from goqueue.runtime import Environment
from goqueue.testing.sim.clock import SimClock
from goqueue.testing.sim.disk import SimDisk, halt_running_loop
from goqueue.testing.sim.loop import LIFE, Life, SimCrash, SimLoop
from goqueue.testing.sim.network import SimFabric, SimNetwork
from goqueue.testing.sim.randomness import SimRandom

T = TypeVar("T")
Process = Callable[[Environment], Coroutine[Any, Any, object]]

_UPTIME_NS_MAX = 10**15


class Host:
    def __init__(self, name: str, clock: SimClock, disk: SimDisk, network: SimNetwork) -> None:
        self.name = name
        self.clock = clock
        self.disk = disk
        self.network = network
        self.life: Life | None = None  # of the process that runs, or ran last
        self.lives = 0
        self.main: asyncio.Task[object] | None = None

    @property
    def alive(self) -> bool:
        return self.life is not None and self.life.alive


class World:
    def __init__(self, seed: int | str = 0, *, fifo: bool = False) -> None:
        self.seed = seed
        self.loop = SimLoop(seed, fifo=fifo)
        self.fabric = SimFabric(seed)
        self.random = random.Random(f"{seed}/world")  # for the test's own choices
        self._hosts: dict[str, Host] = {}

    # --- the environment of a host ------------------------------------------------------------

    def environment(self, host: str) -> Environment:
        """The host's environment as it is now: take a new one after a crash."""
        at = self._host(host)
        self.fabric.up(host)
        return Environment(
            at.clock, at.disk, at.network, SimRandom(f"{self.seed}/{host}/{at.lives}")
        )

    def disk(self, host: str) -> SimDisk:
        return self._host(host).disk

    def clock(self, host: str) -> SimClock:
        return self._host(host).clock

    # --- time ---------------------------------------------------------------------------------

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        with self._noting_the_seed():
            return self.loop.run_until_complete(main)

    def run_until(self, condition: Callable[[], bool], *, limit_s: float = 3600.0) -> None:
        with self._noting_the_seed():
            self.loop.run_until(condition, limit_s=limit_s)

    def run_for(self, seconds: float) -> None:
        self.run(_sleep(seconds))

    def after_each(self, check: Callable[[], object]) -> None:
        """Call `check` after every event: the place for invariants."""
        self.loop.after_each(check)

    # --- processes ----------------------------------------------------------------------------

    def start(self, host: str, process: Process) -> None:
        """Begin a process on a host where none is.  An error that leaves it ends the run."""
        at = self._host(host)
        assert not at.alive, f"{host} has a process"
        at.lives += 1
        at.life = Life(f"{host}/{at.lives}")
        context = copy_context()
        context.run(LIFE.set, at.life)
        main = context.run(process, self.environment(host))
        name = f"{host}/{at.lives}"
        at.main = self.loop.create_task(main, name=name, context=context)  # rule-ok: ends in _end
        at.main.add_done_callback(lambda main: self._on_exit(at, main), context=copy_context())

    def alive(self, host: str) -> bool:
        """Whether the host has a process that has not ended or died."""
        return self._host(host).alive

    def power_loss(
        self,
        host: str,
        seed: int | str | None = None,
        *,
        in_order: bool = False,
        holes: bool = False,
    ) -> None:
        """The host goes dark; its disk keeps what `SimDisk.crash` says."""
        at = self._host(host)
        self._end(at)
        self.fabric.vanish(host)
        at.disk = at.disk.crash(seed, in_order=in_order, holes=holes)

    def kill(self, host: str) -> None:
        """The host's process ends at once; its kernel, and all that was written, stays."""
        at = self._host(host)
        self._end(at)
        self.fabric.kill(host)
        at.disk = at.disk.kill()

    def pause(self, host: str) -> None:
        """The host's process stands still, as after SIGSTOP; others see a silent one."""
        at = self._host(host)
        assert at.alive, f"{host} has no process"
        assert at.life is not None
        self.loop.pause_life(at.life)

    def resume(self, host: str) -> None:
        life = self._host(host).life
        assert life is not None, f"{host} had no process"
        self.loop.resume_life(life)
        self.fabric.resume()

    def is_paused(self, host: str) -> bool:
        life = self._host(host).life
        return life is not None and life.alive and life.held is not None

    def replace_disk(self, host: str) -> None:
        """The host, which has no process, gets an empty disk."""
        at = self._host(host)
        assert not at.alive, f"{host} has a process"
        at.disk = self._new_disk(f"{host}/disk {at.lives}", host)

    def restore_disk(self, host: str, disk: SimDisk) -> None:
        """The host, which has no process, gets this one: an older copy of its own, say."""
        at = self._host(host)
        assert not at.alive, f"{host} has a process"
        at.disk = disk

    # --- the end ------------------------------------------------------------------------------

    def close(self) -> None:
        self.loop.close()

    def __enter__(self) -> "World":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    # --- helpers ------------------------------------------------------------------------------

    def _host(self, name: str) -> Host:
        found = self._hosts.get(name)
        if found is None:
            found = self._hosts[name] = self._new_host(name)
        return found

    def _new_host(self, name: str) -> Host:
        origin_ns = random.Random(f"{self.seed}/{name}/clock").randrange(_UPTIME_NS_MAX)
        clock = SimClock(self.loop, origin_ns=origin_ns)
        return Host(name, clock, self._new_disk(name, name), self.fabric.network(name))

    def _new_disk(self, seed: str, host: str) -> SimDisk:
        disk = SimDisk(f"{self.seed}/{seed}")
        disk.on_crash = lambda crash: self._on_crash(host, crash)
        return disk

    def _on_crash(self, name: str, crash: SimCrash) -> None:
        at = self._host(name)
        if at.alive:
            self._end(at)
            self.fabric.vanish(name)
        else:
            halt_running_loop(crash)

    def _end(self, at: Host) -> None:
        at.clock.restart()
        if at.life is not None and at.life.alive:
            self.loop.end_life(at.life)

    def _on_exit(self, at: Host, main: asyncio.Task[object]) -> None:
        if at.main is not main or not at.alive:
            return
        self.kill(at.name)  # what its main function left running ends with it
        error = None if main.cancelled() else main.exception()
        if error is not None:
            error.add_note(f"left the process {main.get_name()}")
            self.loop.halt(error)

    @contextlib.contextmanager
    def _noting_the_seed(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            error.add_note(
                f"in World(seed={self.seed!r}) at {self.loop.time():.6f} s, event "
                f"{self.loop.events}; GOQUEUE_SIM_SEED={self.seed} repeats a test that takes a seed"
            )
            raise


async def _sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)
