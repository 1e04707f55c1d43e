"""FastStream, as its documentation has it: a service of subscribers, publishers and groups."""

import asyncio
import importlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.group_server import GroupServer

faststream = pytest.importorskip("faststream")

ORDERS = 50


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GroupServer]:
    server = GroupServer(tmp_path_factory.mktemp("groups"))
    server.start()
    yield server
    server.stop()
    assert "Traceback" not in server.log(), server.log()


@pytest.fixture(params=["kafka", "confluent"])
def library(request: pytest.FixtureRequest) -> Any:
    return importlib.import_module(f"faststream.{request.param}")


async def test_a_service_reads_orders_and_publishes_receipts(server, library):
    orders, receipts = server.topic(prefix="orders"), server.topic(prefix="receipts")
    broker = library.KafkaBroker(server.address)
    app = faststream.FastStream(broker)
    done: set[int] = set()
    finished = asyncio.Event()

    @broker.subscriber(orders, group_id="shop", auto_offset_reset="earliest")
    @broker.publisher(receipts)
    async def sell(order: int) -> str:
        return f"receipt {order}"

    @broker.subscriber(receipts, group_id="books", auto_offset_reset="earliest")
    async def book(receipt: str) -> None:
        done.add(int(receipt.removeprefix("receipt ")))
        if len(done) == ORDERS:
            finished.set()

    @app.after_startup
    async def order() -> None:
        for order in range(ORDERS):
            await broker.publish(order, orders)

    running = asyncio.create_task(app.run())
    try:
        await asyncio.wait_for(finished.wait(), 20)
    finally:
        app.exit()
        await asyncio.wait_for(running, 20)
    assert done == set(range(ORDERS))
    groups = {group.group_id for group in server.admin.list_consumer_groups().result(10).valid}
    assert {"shop", "books"} <= groups


async def test_a_batch_subscriber_acknowledges_by_hand(server, library):
    message_class: Any = importlib.import_module(f"{library.__name__}.annotations").KafkaMessage
    topic = server.topic(prefix="batches")
    broker = library.KafkaBroker(server.address)
    seen: list[int] = []
    finished = asyncio.Event()

    @broker.subscriber(
        topic,
        group_id=f"batches-{topic}",
        batch=True,
        auto_offset_reset="earliest",
        ack_policy=faststream.AckPolicy.MANUAL,
    )
    async def take(numbers: list[int], message: message_class) -> None:
        seen.extend(numbers)
        await message.ack()
        if len(seen) >= ORDERS:
            finished.set()

    async with broker:
        await broker.start()
        server.fill(topic, ORDERS)
        await asyncio.wait_for(finished.wait(), 20)
    assert sorted(seen) == list(range(ORDERS))
