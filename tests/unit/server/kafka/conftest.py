"""A broker on a real disk, without listeners."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from goqueue.broker import Broker
from goqueue.model.config import Config, GroupsConfig
from goqueue.runtime import real_environment


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    config = Config(data_dir=str(tmp_path), groups=GroupsConfig(initial_rebalance_delay_ms=0))
    environment = real_environment()
    with contextlib.closing(environment.disk):
        async with Broker(environment, config).running() as broker:
            yield broker
