"""Ask a handler as a client of some version would; the answer is encoded for that version too."""

import asyncio
from typing import Any

from goqueue.broker import Broker
from goqueue.model.batch import TRANSACTIONAL, encode
from goqueue.model.config import Address
from goqueue.model.record import Record
from goqueue.security import ANONYMOUS, Principal
from goqueue.server.kafka.access import Access
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.fetch import handle_fetch
from goqueue.server.kafka.fetch_sessions import FetchSessions
from goqueue.server.kafka.handlers import HANDLERS
from goqueue.server.kafka.produce import handle_produce
from goqueue.server.kafka.reply import ReplySlot
from goqueue.txn import ProducerIdentity
from goqueue.wire.apis import VERSIONS, ApiKey, is_flexible
from goqueue.wire.client_codec import entity_of
from goqueue.wire.codec import entity_reader, entity_writer
from goqueue.wire.frames import RequestHeader
from goqueue.wire.messages import (
    build,
    duration,
    encode_response,
    request_class,
    request_shape,
    response_class,
)

PEER = "127.0.0.1:40000"
PRODUCE_BY_NAME = 12  # later versions name the topic's id
FETCH_BY_NAME = 12
FRAME_BYTES = 9  # before a response: its size, the correlation id, and no tagged fields


def access_of(broker: Broker, principal: Principal = ANONYMOUS) -> Access:
    """What it may do, from `PEER`."""
    return Access(broker.permissions, principal, PEER.partition(":")[0])


async def ask(broker: Broker, api: ApiKey, version: int | None = None, **fields: Any) -> Any:
    """The response, in its newest shape."""
    return await ask_from(PEER, broker, api, version, **fields)


async def ask_from(
    peer: str,
    broker: Broker,
    api: ApiKey,
    version: int | None = None,
    access: Access | None = None,
    **fields: Any,
) -> Any:
    """The same on a connection of one's own."""
    spoken = VERSIONS[api].max if version is None else version
    header = RequestHeader(api, spoken, 1, "tester", is_flexible(api, spoken), memoryview(b""))
    addresses = Address("127.0.0.1", 9092), Address("127.0.0.1", 8080)
    context = Context(broker, header, *addresses, peer, access or access_of(broker))
    response = await HANDLERS[api](context, build(request_shape(api), **fields))
    encode_response(api, spoken, response)
    return response


# --- APIs that read their frames themselves -------------------------------------------------------


def frame_of(api: ApiKey, version: int, **fields: Any) -> RequestHeader:
    """A request as it arrives; fields are plain values, lists and dicts."""
    layout = request_class(api, version)
    body = bytearray()
    entity_writer(layout, layout)(body, entity_of(layout, fields))
    return RequestHeader(api, version, 1, "tester", is_flexible(api, version), memoryview(body))


def response_of(api: ApiKey, version: int, body: bytes) -> Any:
    layout = response_class(api, version)
    return entity_reader(layout, layout)(body, 0)[0]


async def produce(
    broker: Broker,
    topic: str,
    *,
    acks: int = -1,
    timeout_ms: int = 60_000,
    index: int = 0,
    transaction: tuple[str, ProducerIdentity] | None = None,
    access: Access | None = None,
) -> Any:
    """One record; gives the partition's part of the response, once it is there.

    In a transaction it is the producer's first in the partition.
    """
    record = Record(0, broker.environment.clock.now(), None, b"x")
    records, transactional_id = encode([record]), None
    if transaction is not None:
        transactional_id, who = transaction
        producer = (who.producer_id, who.epoch, 0)
        records = encode([record], attributes=TRANSACTIONAL, producer=producer)
    header = frame_of(
        ApiKey.PRODUCE,
        PRODUCE_BY_NAME,
        transactional_id=transactional_id,
        acks=acks,
        timeout=duration(timeout_ms),
        topic_data=[
            {"name": topic, "partition_data": [{"index": index, "records": bytes(records)}]},
        ],
    )
    filled: asyncio.Future[ReplySlot] = asyncio.get_running_loop().create_future()
    slot = ReplySlot(header, 0.0, filled.set_result)
    await handle_produce(broker, access or access_of(broker), header, slot)
    parts = (await filled).parts or []
    response = response_of(ApiKey.PRODUCE, PRODUCE_BY_NAME, b"".join(parts)[FRAME_BYTES:])
    return response.responses[0].partition_responses[0]


async def fetch(
    broker: Broker,
    topic: str,
    *,
    epoch: int = -1,
    index: int = 0,
    offset: int = 0,
    wait_ms: int = 0,
    replica_id: int = -1,
    access: Access | None = None,
) -> Any:
    """Gives the partition's part of the response."""
    partition = {
        "partition": index,
        "current_leader_epoch": epoch,
        "fetch_offset": offset,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": 1 << 20,
    }
    header = frame_of(
        ApiKey.FETCH,
        FETCH_BY_NAME,
        replica_id=replica_id,
        max_wait=duration(wait_ms),
        min_bytes=1,
        topics=[{"topic": topic, "partitions": [partition]}],
    )
    sessions = FetchSessions(1, broker.environment.random)
    parts = await handle_fetch(broker, access or access_of(broker), sessions, 1 << 20, header)
    response = response_of(ApiKey.FETCH, FETCH_BY_NAME, b"".join(parts))
    return response.responses[0].partitions[0]
