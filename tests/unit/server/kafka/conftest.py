"""A broker on a real disk, without listeners."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from goqueue.broker import Broker
from goqueue.model.config import AuthConfig, Config, GroupsConfig
from goqueue.runtime import real_environment


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    config = Config(data_dir=str(tmp_path), groups=GroupsConfig(initial_rebalance_delay_ms=0))
    environment = real_environment()
    with contextlib.closing(environment.disk):
        async with Broker(environment, config).running() as broker:
            yield broker


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Broker]:
    """One that checks permissions, with an administrator, `root`, and a `reader`."""
    config = Config(
        data_dir=str(tmp_path),
        groups=GroupsConfig(initial_rebalance_delay_ms=0),
        auth=AuthConfig(enabled=True),
    )
    environment = real_environment()
    with contextlib.closing(environment.disk):
        async with Broker(environment, config).running() as broker:
            await broker.users.put("root", "root", ("admin",))
            await broker.users.put("reader", "reader", ("readonly",))
            yield broker
