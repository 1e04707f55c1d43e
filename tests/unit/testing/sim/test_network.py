"""TCP as the fabric plays it, beside the real one where the two can be compared."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from goqueue.runtime import Network, RealNetwork
from goqueue.testing.sim import SimFabric, SimNetwork, run


class Recorder(asyncio.Protocol):
    """Keeps what arrives, and what happened."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.pieces: list[int] = []
        self.happened: list[str] = []
        self.transport: asyncio.Transport
        self.made = asyncio.Event()
        self.lost = asyncio.Event()
        self.keep_open = False
        self._changed = asyncio.Event()
        self.reason: Exception | None = None

    async def until(self, condition: Callable[[], object]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._note("made")
        self.made.set()

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.pieces.append(len(data))
        self._note("data")

    def eof_received(self) -> bool:
        self._note("end")
        return self.keep_open

    def connection_lost(self, exc: Exception | None) -> None:
        self._note("lost")
        self.reason = exc
        self.lost.set()

    def pause_writing(self) -> None:
        self._note("pause")

    def resume_writing(self) -> None:
        self._note("resume")

    def _note(self, event: str) -> None:
        if self.happened[-1:] != [event]:
            self.happened.append(event)
        self._changed.set()


class BufferedRecorder(asyncio.BufferedProtocol):
    """The same through a small buffer of its own."""

    def __init__(self) -> None:
        self.received = bytearray()
        self._buffer = bytearray(7)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self._buffer[:nbytes]


async def pair(here: Network, there: Network, host: str = "127.0.0.1") -> tuple[Recorder, Recorder]:
    client, server = Recorder(), Recorder()
    listener = await there.listen(host, 0, lambda: server)
    await here.connect(*listener.address, lambda: client)
    await server.made.wait()
    await listener.close()
    return client, server


async def sim_pair(fabric: SimFabric) -> tuple[Recorder, Recorder]:
    return await pair(fabric.network("a"), fabric.network("b"), "b")


# --- the same on both networks -----------------------------------------------------------------

Scene = Callable[[Network], Awaitable[object]]


async def a_close_sends_what_was_written(network: Network) -> object:
    client, server = await pair(network, network)
    client.transport.write(b"x" * 300_000)
    client.transport.close()
    await server.lost.wait()
    await client.lost.wait()
    return len(server.received), server.happened, client.happened[-1], server.reason, client.reason


async def an_abort_with_unread_bytes_is_a_reset(network: Network) -> object:
    client, server = await pair(network, network)
    server.transport.write(b"hello")
    await client.until(lambda: client.received)
    client.transport.pause_reading()
    server.transport.write(b"unread")
    await asyncio.sleep(0.01)
    client.transport.abort()
    await server.lost.wait()
    return server.happened, type(server.reason).__name__


async def an_abort_with_nothing_unread_is_an_end(network: Network) -> object:
    client, server = await pair(network, network)
    client.transport.write(b"hello")
    client.transport.abort()
    client.transport.write(b"too late")
    await client.lost.wait()
    await server.lost.wait()
    return bytes(server.received), server.happened, server.reason, client.reason


async def a_half_closed_connection_still_answers(network: Network) -> object:
    client, server = await pair(network, network)
    server.keep_open = True
    client.transport.write(b"question")
    client.transport.write_eof()
    await server.until(lambda: "end" in server.happened)
    server.transport.write(b"answer")
    server.transport.close()
    await client.lost.wait()
    return bytes(server.received), bytes(client.received), client.happened


async def nobody_listens(network: Network) -> object:
    listener = await network.listen("127.0.0.1", 0, Recorder)
    address = listener.address
    await listener.close()
    try:
        await network.connect(*address, Recorder)
    except OSError as error:
        return type(error).__name__
    return None


async def a_port_is_taken(network: Network) -> object:
    listener = await network.listen("127.0.0.1", 0, Recorder)
    try:
        await network.listen(*listener.address, Recorder)
    except OSError as error:
        return error.errno
    finally:
        await listener.close()
    return None


async def a_paused_reader_pauses_the_writer(network: Network) -> object:
    client, server = await pair(network, network)
    server.transport.pause_reading()
    for _ in range(400):
        client.transport.write(b"x" * 65_536)
    server.transport.resume_reading()
    await server.until(lambda: len(server.received) == 400 * 65_536)
    await client.until(lambda: "resume" in client.happened)
    client.transport.close()
    server.transport.close()
    await client.lost.wait()
    await server.lost.wait()
    return client.happened


@pytest.mark.parametrize(
    "scene",
    [
        a_close_sends_what_was_written,
        an_abort_with_unread_bytes_is_a_reset,
        an_abort_with_nothing_unread_is_an_end,
        a_half_closed_connection_still_answers,
        nobody_listens,
        a_port_is_taken,
        a_paused_reader_pauses_the_writer,
    ],
)
def test_a_scene_ends_the_same_on_both_networks(scene: Scene):
    async def on(network: Network) -> object:
        return await scene(network)

    expected = asyncio.run(on(RealNetwork()))
    for seed in range(5):
        assert run(on(SimFabric(seed).network("a")), seed=seed) == expected


# --- what only the fabric does -------------------------------------------------------------------


def test_bytes_arrive_in_order_and_cut_anywhere(seed: int):
    sent = bytes(range(256)) * 20

    async def main() -> list[int]:
        client, server = await sim_pair(SimFabric(seed))
        for start in range(0, len(sent), 100):
            client.transport.write(sent[start : start + 100])
            await asyncio.sleep(0.0005)
        client.transport.close()
        await server.lost.wait()
        assert server.received == sent
        return server.pieces

    pieces = run(main(), seed=seed)
    assert len(set(pieces)) > 3
    assert run(main(), seed=seed) == pieces


def test_a_buffered_protocol_gets_the_same_bytes(seed: int):
    async def main() -> None:
        network = SimFabric(seed).network("a")
        server, client = BufferedRecorder(), Recorder()
        listener = await network.listen("", 0, lambda: server)
        assert listener.address[0] == "0.0.0.0"
        await network.connect("a", listener.address[1], lambda: client)
        client.transport.writelines([b"abc", bytearray(b"def"), memoryview(b"x" * 100)])
        client.transport.close()
        await asyncio.sleep(5)
        assert server.received == b"abcdef" + b"x" * 100

    run(main(), seed=seed)


def test_a_cut_holds_bytes_back_until_it_is_healed():
    fabric = SimFabric()

    async def main() -> None:
        client, server = await sim_pair(fabric)
        fabric.cut("a", "b")
        client.transport.write(b"late")
        await asyncio.sleep(60)
        assert not server.received
        fabric.heal("a", "b")
        await asyncio.sleep(1)
        assert server.received == b"late"

    run(main())


def test_a_slow_link_delays_every_piece_until_it_is_healed():
    fabric = SimFabric()

    async def main() -> None:
        client, server = await sim_pair(fabric)
        fabric.slow("a", "b", (2.0, 2.0))
        client.transport.write(b"late")
        await asyncio.sleep(1)
        assert not server.received
        await asyncio.sleep(20)
        fabric.heal()
        client.transport.write(b" soon")
        await asyncio.sleep(1)
        assert server.received == b"late soon"

    run(main())


def test_a_cut_that_stays_ends_the_writer_and_leaves_the_other_half_open():
    fabric = SimFabric(retransmission_timeout_s=100)

    async def main() -> None:
        client, server = await sim_pair(fabric)
        fabric.cut("a", "b")
        client.transport.write(b"lost")
        await client.lost.wait()
        assert isinstance(client.reason, TimeoutError)
        fabric.heal()
        await asyncio.sleep(1000)
        assert not server.lost.is_set()
        server.transport.write(b"anyone?")
        await server.lost.wait()
        assert isinstance(server.reason, ConnectionResetError)

    run(main())


def test_one_way_cuts_let_the_other_way_through():
    fabric = SimFabric()

    async def main() -> None:
        client, server = await sim_pair(fabric)
        fabric.cut("a", "b", one_way=True)
        client.transport.write(b"up")
        server.transport.write(b"down")
        await asyncio.sleep(10)
        assert (bytes(server.received), bytes(client.received)) == (b"", b"down")

    run(main())


def test_connecting_across_a_cut_waits_and_then_gives_up():
    fabric = SimFabric()

    async def main() -> None:
        fabric.network("a")
        await fabric.network("b").listen("b", 9092, Recorder)
        fabric.isolate("b")
        loop = asyncio.get_running_loop()
        loop.call_later(20, fabric.heal)
        await fabric.network("a").connect("b", 9092, Recorder)
        assert 20 < loop.time() < 60
        fabric.cut("a", "b")
        with pytest.raises(TimeoutError):
            await fabric.network("a").connect("b", 9092, Recorder)

    run(main())


def test_connections_can_be_broken():
    fabric = SimFabric()

    async def main() -> None:
        client, server = await sim_pair(fabric)
        fabric.reset("a", "b")
        await client.lost.wait()
        await server.lost.wait()
        assert isinstance(client.reason, ConnectionResetError)
        assert isinstance(server.reason, ConnectionResetError)

    run(main())


def test_wires_can_break_by_chance():
    fabric = SimFabric()
    fabric.reset_probability = 0.2

    async def main() -> None:
        client, server = await sim_pair(fabric)
        while not client.lost.is_set():
            client.transport.write(b"ping")
            await asyncio.sleep(0.1)
        await server.lost.wait()
        assert (b"ping" * 1000).startswith(server.received)

    run(main())


def test_a_loopback_listener_is_seen_from_its_own_host_only():
    fabric = SimFabric()

    async def main() -> None:
        home: SimNetwork = fabric.network("a")
        listener = await home.listen("127.0.0.1", 9092, Recorder)
        await home.connect(*listener.address, Recorder)
        with pytest.raises(ConnectionRefusedError):
            await fabric.network("b").connect("a", 9092, Recorder)
        with pytest.raises(OSError, match="no host"):
            await home.connect("nowhere", 1, Recorder)

    run(main())


def test_an_error_of_a_protocol_ends_the_run():
    class Broken(Recorder):
        def data_received(self, data: bytes) -> None:
            raise ValueError("broken")

    async def main() -> None:
        network = SimFabric().network("a")
        client = Recorder()
        listener = await network.listen("127.0.0.1", 0, Broken)
        await network.connect(*listener.address, lambda: client)
        client.transport.write(b"x")
        await client.lost.wait()

    with pytest.raises(ValueError, match="broken"):
        run(main())
