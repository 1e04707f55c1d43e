"""Partitions are opened when they are first used, often many at once."""

import asyncio
import contextlib

from goqueue.broker import Broker
from goqueue.model.config import Config
from goqueue.runtime import real_environment


async def test_partitions_of_a_new_topic_may_be_opened_all_at_once(tmp_path):
    environment = real_environment()
    with contextlib.closing(environment.disk):
        async with Broker(environment, Config(data_dir=str(tmp_path))).running() as broker:
            for number in range(20):
                topic = await broker.create_topic(f"topic-{number}", partitions=8)
                opened = (broker.partition(topic.name, index) for index in range(8))
                await asyncio.gather(*opened)
                places = {path.name for path in (tmp_path / "logs" / topic.name).iterdir()}
                assert places == {"topic", *map(str, range(8))}
    assert not list(tmp_path.glob("deleted/*"))
