"""Clients over their quota are told so, and made to wait; nobody else is."""

import asyncio
from typing import Any

from goqueue.broker import Broker
from goqueue.cluster.metadata import ClientQuotasChanged
from goqueue.quotas import ANY, QuotaEntity
from goqueue.wire.apis import ApiKey
from goqueue.wire.messages import milliseconds, response_class
from tests.unit.server.kafka.test_connection import (
    Peer,
    Served,
    fetch,
    listening,
    metadata,
    produce,
    produced,
    served,
)
from tests.unit.wire.kio_side import kio_decode

__all__ = ["served"]  # a fixture

CLIENT = QuotaEntity(client_id="c")  # of all frames
WAIT_MIN_S = 0.25


async def limit(broker: Broker, entity: QuotaEntity = CLIENT, **rates: float) -> None:
    await broker.change_security([ClientQuotasChanged(entity, dict(rates))])


async def throttle_ms(peer: Peer, api: ApiKey, version: int) -> int:
    """What the next reply tells."""
    _, body = await peer.reply()
    answer: Any = kio_decode(response_class(api, version), body[1:])
    return milliseconds(answer.throttle_time)


async def test_a_producer_over_its_quota_is_told_and_muted(served: Served):
    broker, connect = served
    await broker.create_topic("t", partitions=1)
    await limit(broker, producer_byte_rate=4_000.0)
    peer, other = await connect(), await connect()
    peer.send(produce(1, -1, bytes(5_500)) + metadata(2))  # more than a second's worth passes
    correlation_id, body = await peer.reply()
    told = kio_decode(response_class(ApiKey.PRODUCE, 9), body[1:])
    started = asyncio.get_running_loop().time()
    assert (correlation_id, produced(body)[1]) == (1, 0)
    assert milliseconds(told.throttle_time) >= 250
    other.send(metadata(9))  # only what is over its quota waits
    assert (await other.reply())[0] == 9
    assert (await peer.reply())[0] == 2
    assert asyncio.get_running_loop().time() - started >= WAIT_MIN_S
    assert broker.quotas.throttled == {"producer_byte_rate": 1}


async def test_a_muted_connection_is_not_read(served: Served):
    """What it sends waits in its own socket, and takes no memory here."""
    broker, connect = served
    await broker.create_topic("t", partitions=1)
    await limit(broker, producer_byte_rate=10_000.0)
    peer, other = await connect(), await connect()
    peer.send(produce(1, -1, bytes(90_000)))
    assert await throttle_ms(peer, ApiKey.PRODUCE, 9) > 5_000
    for number in range(12):  # less than `pending_bytes_max`
        peer.send(produce(number, -1, bytes(1_000_000)))
    for number in range(50):
        other.send(metadata(number))
        assert (await other.reply())[0] == number
    assert peer.unsent_bytes > 0
    peer.abort()  # to send it all would take two minutes


async def test_connections_of_one_quota_take_turns(served: Served):
    broker, connect = served
    await broker.create_topic("t", partitions=1)
    peers = [await connect(), await connect()]
    for peer in peers:
        peer.send(produce(0, -1, b"x"))
        assert (await peer.reply())[0] == 0
    await limit(broker, producer_byte_rate=20_000.0)
    peers[0].send(produce(1, -1, bytes(22_000)))  # from here on both have to wait
    assert (await peers[0].reply())[0] == 1
    order: list[int] = []

    async def send(index: int) -> None:
        for number in range(2, 6):
            peers[index].send(produce(number, -1, bytes(1_500)))
        for _ in range(4):
            await peers[index].reply()
            order.append(index)

    await asyncio.gather(send(0), send(1))
    first_done = order[-1] ^ 1
    end = len(order) - order[::-1].index(first_done)
    assert order[:end].count(1 - first_done) >= 2, order


async def test_another_connection_does_not_get_around_it(served: Served):
    broker, connect = served
    await broker.create_topic("t", partitions=1)
    await limit(broker, producer_message_rate=2.0)
    peer, other = await connect(), await connect()
    peer.send(produce(1, -1, b"a") + produce(2, -1, b"b") + produce(3, -1, b"c"))
    waits = [await throttle_ms(peer, ApiKey.PRODUCE, 9) for _ in range(3)]
    assert waits[:2] == [0, 0]
    assert waits[2] > 0
    started = asyncio.get_running_loop().time()
    other.send(produce(4, -1, b"d"))
    assert (await other.reply())[0] == 4
    assert asyncio.get_running_loop().time() - started >= WAIT_MIN_S


async def test_a_consumer_over_its_quota_is_told(served: Served):
    broker, connect = served
    await broker.create_topic("t", partitions=1)
    peer = await connect()
    for number in range(3):
        peer.send(produce(number, -1, bytes(500)))
        await peer.reply()
    await limit(broker, consumer_byte_rate=1_000.0)
    peer.send(fetch(9, 0, 0))
    assert await throttle_ms(peer, ApiKey.FETCH, 12) > 250
    await limit(broker, consumer_byte_rate=1e9, consumer_message_rate=2.0)
    peer.send(fetch(10, 0, 0))
    assert await throttle_ms(peer, ApiKey.FETCH, 12) > 250


async def test_every_request_counts_for_the_rate_of_requests(served: Served):
    broker, connect = served
    await limit(broker, QuotaEntity(client_id=ANY), request_rate=3.0)
    peer = await connect()
    peer.send(b"".join(metadata(number) for number in range(4)))
    waits = [await throttle_ms(peer, ApiKey.METADATA, 13) for _ in range(4)]
    assert waits[:3] == [0, 0, 0]
    assert waits[3] > 0


async def test_what_is_refused_is_not_charged(served: Served):
    broker, connect = served
    await limit(broker, producer_byte_rate=100.0)
    await broker.create_topic("t", partitions=1)
    peer = await connect()
    peer.send(produce(1, -1, b"", records=bytes(5_000)))
    assert await throttle_ms(peer, ApiKey.PRODUCE, 9) == 0


async def test_connections_of_an_address_are_limited(tmp_path: Any):
    async with listening(tmp_path, connections_per_address_max=2) as (broker, connect):
        first, second = await connect(), await connect()
        first.send(metadata(1))
        second.send(metadata(2))
        assert [(await each.reply())[0] for each in (first, second)] == [1, 2]
        assert await (await connect()).rest() == b""
        await second.close()
        third = await connect()
        third.send(metadata(3))
        assert (await third.reply())[0] == 3
        await limit(broker, QuotaEntity(ip="127.0.0.1"), connection_creation_rate=0.001)
        await third.close()
        fourth = await connect()  # that one is a debt of a thousand seconds
        fourth.send(metadata(4))
        assert (await fourth.reply())[0] == 4
        await fourth.close()
        assert await (await connect()).rest() == b""
