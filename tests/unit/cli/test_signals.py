"""What signals do to a server: the first stops it, the second hurries, one reloads."""

import asyncio
import os
import signal
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from goqueue.cli.failures import UsageFailure
from goqueue.cli.signals import Signals
from goqueue.model.config import Config


class Manager:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def __getattr__(self, name: str) -> Callable[[], None]:
        return lambda: self.told.append(name)


class Node:
    connections = 3

    def __init__(self) -> None:
        self.drained: list[bool] = []
        self.reloaded: list[Config] = []

    async def drain(self, hurry: asyncio.Event) -> None:
        await hurry.wait()
        self.drained.append(True)

    def reload(self, config: Config) -> SimpleNamespace:
        self.reloaded.append(config)
        return SimpleNamespace(changed=[], needs_restart=[])


def signals_with(
    node: Node | None, read_config: Callable[[], Config] = Config
) -> tuple[Signals, Manager]:
    manager = Manager()
    signals = Signals(read_config, manager)  # type: ignore[arg-type]
    signals.node = node  # type: ignore[assignment]
    return signals, manager


async def send(kind: signal.Signals) -> None:
    os.kill(os.getpid(), kind)
    for _ in range(5):
        await asyncio.sleep(0.001)  # the loop reads its signal pipe


async def test_an_interrupt_stops_without_a_drain():
    node = Node()
    signals, manager = signals_with(node)
    with signals:
        await send(signal.SIGINT)
        await signals.wait_stop(node)  # type: ignore[arg-type]
    assert manager.told == ["notify_stopping"]
    assert node.drained == []


async def test_a_server_that_is_told_to_end_drains_until_it_is_told_again():
    node = Node()
    signals, _ = signals_with(node)
    with signals:
        await send(signal.SIGTERM)
        stopping = asyncio.ensure_future(signals.wait_stop(node))  # type: ignore[arg-type]
        for _ in range(5):
            await asyncio.sleep(0)
        assert not stopping.done()
        await send(signal.SIGTERM)
        await stopping
    assert node.drained == [True]


async def test_the_configuration_is_read_again():
    node, config = Node(), Config(data_dir="elsewhere")
    signals, manager = signals_with(node, lambda: config)
    with signals:
        await send(signal.SIGHUP)
    assert node.reloaded == [config]
    assert manager.told == ["notify_reloading", "ready"]


async def test_a_broken_configuration_leaves_the_server_as_it_is():
    def broken() -> Config:
        raise UsageFailure("no such setting")

    node = Node()
    signals, manager = signals_with(node, broken)
    with signals:
        await send(signal.SIGHUP)
    assert node.reloaded == []
    assert manager.told == ["notify_reloading", "ready"], "systemd waits for the second word"


@pytest.mark.parametrize("is_starting", [True, False], ids=["starting", "stopping"])
async def test_nothing_is_reloaded_while_the_server_starts_or_stops(is_starting: bool):
    node = Node()
    signals, manager = signals_with(None if is_starting else node)
    with signals:
        if not is_starting:
            await send(signal.SIGTERM)
        await send(signal.SIGHUP)
    assert node.reloaded == []
    assert manager.told == []


async def test_after_the_block_signals_do_what_they_did_before():
    signals, _ = signals_with(Node())
    with signals:
        pass
    loop = asyncio.get_running_loop()
    assert not any(loop.remove_signal_handler(kind) for kind in (signal.SIGHUP, signal.SIGTERM))
