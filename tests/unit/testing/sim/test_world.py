"""Hosts that live, die and come back in one world."""

import asyncio

import pytest

from goqueue.runtime import Environment
from goqueue.testing.sim import Moment, SimCrash, World

LOG = "/data/log"


class Counter(asyncio.Protocol):
    """A tiny durable server: each byte is appended, synced, and then answered."""

    def __init__(self, environment: Environment, group: asyncio.TaskGroup) -> None:
        self._disk = environment.disk
        self._file = environment.disk.open(LOG)
        self._group = group
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._file.append(data)
        self._group.create_task(self._answer(data))

    async def _answer(self, data: bytes) -> None:
        await self._disk.in_background(self._file.sync)
        self._transport.write(data)


async def server(environment: Environment) -> None:
    environment.disk.make_directory("/data")
    if not environment.disk.exists(LOG):
        environment.disk.open(LOG).truncate(0)
        environment.disk.sync_directory("/data")
    async with asyncio.TaskGroup() as group:
        await environment.network.listen("", 9092, lambda: Counter(environment, group))
        await asyncio.Event().wait()


class Client(asyncio.Protocol):
    def __init__(self) -> None:
        self.acked = 0
        self.lost = asyncio.Event()
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.acked += len(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()


async def connect(environment: Environment) -> Client:
    client = Client()
    while True:
        try:
            await environment.network.connect("server", 9092, lambda: client)
            return client
        except ConnectionRefusedError:
            await environment.clock.sleep(0.01)


async def send(client: Client, environment: Environment, count: int) -> None:
    for _ in range(count):
        client.transport.write(b"x")
        await environment.clock.sleep(environment.random.uniform(0, 0.002))


def test_what_was_acked_survives_power_loss(seed: int):
    with World(seed) as world:
        environment = world.environment("client")
        world.start("server", server)
        client = world.run(connect(environment))
        world.run(send(client, environment, 50))
        world.power_loss("server")
        assert len(world.disk("server").read_file(LOG) or b"") >= client.acked

        world.start("server", server)
        client = world.run(connect(environment))
        world.run(send(client, environment, 5))
        world.run_until(lambda: client.acked == 5)


def test_what_was_acked_survives_death_at_any_operation():
    for operation in range(1, 60):
        with World(operation) as world:
            environment = world.environment("client")
            world.disk("server").crash_at(operation)
            world.start("server", server)
            client = Client()
            if world.run(_try_to_send(client, environment)):
                assert world.alive("server") or client.acked <= 30
            world.power_loss("server")
            assert len(world.disk("server").read_file(LOG) or b"") >= client.acked


async def _try_to_send(client: Client, environment: Environment) -> bool:
    try:
        async with asyncio.timeout(5):
            while True:
                try:
                    await environment.network.connect("server", 9092, lambda: client)
                    break
                except ConnectionRefusedError:
                    await environment.clock.sleep(0.01)
            await send(client, environment, 30)
    except TimeoutError:
        return False
    return True


def test_one_seed_is_one_history(seed: int):
    def history() -> list[tuple[float, int]]:
        with World(seed) as world:
            environment = world.environment("client")
            world.start("server", server)
            client = world.run(connect(environment))
            world.run(send(client, environment, 20))
            acks = [(world.loop.time(), client.acked), (world.loop.events, 0)]
            world.kill("server")
            world.run(client_lost(client))
            return [*acks, (world.loop.time(), world.loop.events)]

    assert history() == history()


async def client_lost(client: Client) -> None:
    await client.lost.wait()


def test_a_killed_process_closes_its_connections_and_keeps_its_files():
    with World() as world:
        environment = world.environment("client")
        world.start("server", server)
        client = world.run(connect(environment))
        world.run(send(client, environment, 10))
        world.run_for(1)
        world.kill("server")
        assert not world.alive("server")
        world.run(client_lost(client))
        assert world.disk("server").read_file(LOG) == b"x" * 10


def test_a_host_without_power_answers_nobody_until_it_is_back():
    with World() as world:
        environment = world.environment("client")
        world.start("server", server)
        client = world.run(connect(environment))
        world.power_loss("server")
        client.transport.write(b"x")
        world.run_for(60)
        assert not client.lost.is_set()
        world.start("server", server)
        world.run(client_lost(client))


def test_a_disk_that_dies_takes_only_its_own_host():
    with World() as world:
        environment = world.environment("client")
        world.disk("server").crash_at(10, Moment.MIDDLE)
        world.start("server", server)
        client = world.run(connect(environment))
        world.run(send(client, environment, 20))
        assert not world.alive("server")
        assert world.disk("server").dead


def test_a_disk_that_dies_under_the_test_itself_raises():
    with World("x") as world:
        world.disk("a").crash_at(1)

        async def main(environment: Environment) -> None:
            environment.disk.make_directory("/data")

        with pytest.raises(SimCrash) as crash:
            world.run(main(world.environment("a")))
        assert any("seed='x'" in note for note in crash.value.__notes__)


def test_an_error_that_leaves_a_process_ends_the_run():
    async def broken(environment: Environment) -> None:
        await environment.clock.sleep(1)
        raise ValueError("broken")

    with World(7) as world:
        world.start("a", broken)
        with pytest.raises(ValueError, match="broken") as error:
            world.run_for(10)
        assert any("seed=7" in note for note in error.value.__notes__)


def test_a_process_that_ends_may_be_started_again():
    async def short(environment: Environment) -> None:
        await environment.clock.sleep(1)

    with World() as world:
        for _ in range(3):
            world.start("a", short)
            assert world.alive("a")
            world.run_for(2)
            assert not world.alive("a")


def test_hosts_have_clocks_and_chance_of_their_own():
    with World() as world:
        one, other = world.environment("a"), world.environment("b")
        assert one.clock.instant() != other.clock.instant()
        assert one.random.bytes(8) != other.random.bytes(8)
        assert one.clock.now() == other.clock.now()
        world.clock("a").jump(1000)
        assert one.clock.now() == other.clock.now() + 1000


def test_a_paused_process_stands_still_and_goes_on():
    ticks: list[float] = []

    async def tick(environment: Environment) -> None:
        while True:
            await asyncio.sleep(1.0)
            ticks.append(asyncio.get_running_loop().time())

    with World(1) as world:
        world.start("a", tick)
        world.run_for(2.5)
        assert len(ticks) == 2
        world.pause("a")
        assert world.is_paused("a")
        world.run_for(10.0)
        assert len(ticks) == 2
        world.resume("a")
        world.run_for(2.5)
        assert len(ticks) == 5, "one that was due meanwhile, and two more"
        assert not world.is_paused("a")


def test_what_is_sent_to_a_paused_process_arrives_when_it_goes_on():
    heard: list[bytes] = []

    class Hearer(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            heard.append(data)

    class Greeter(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            transport.write(b"hello")

    async def listen(environment: Environment) -> None:
        await environment.network.listen("0.0.0.0", 7, Hearer)
        await asyncio.sleep(1000.0)

    async def send(environment: Environment) -> None:
        await environment.network.connect("a", 7, Greeter)
        await asyncio.sleep(5.0)

    with World(1) as world:
        world.start("a", listen)
        world.run_for(1.0)
        world.pause("a")
        world.run(send(world.environment("b")))
        assert not heard
        world.resume("a")
        world.run_for(1.0)
        assert b"".join(heard) == b"hello"


def test_a_killed_process_is_not_paused_any_more():
    async def wait(environment: Environment) -> None:
        await asyncio.sleep(1000.0)

    with World(1) as world:
        world.start("a", wait)
        world.run_for(1.0)
        world.pause("a")
        world.kill("a")
        assert not world.is_paused("a")
        world.start("a", wait)
        assert world.alive("a")
        assert not world.is_paused("a")


def test_a_replaced_disk_is_empty():
    async def keep(environment: Environment) -> None:
        environment.disk.replace_file("/file", b"content")

    with World(1) as world:
        world.start("a", keep)
        world.run_for(1.0)
        assert world.disk("a").read_file("/file") == b"content"
        world.replace_disk("a")
        assert world.disk("a").read_file("/file") is None


def test_a_host_can_get_an_older_copy_of_its_disk():
    with World(0) as world:
        disk = world.disk("a")
        disk.replace_file("/file", b"before")
        copy = disk.crash()
        disk.replace_file("/file", b"after")
        world.restore_disk("a", copy)
        assert world.disk("a").read_file("/file") == b"before"
