"""Ask a handler as a client of some version would; the answer is encoded for that version too."""

from typing import Any

from goqueue.broker import Broker
from goqueue.model.config import Address
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.handlers import HANDLERS
from goqueue.wire.apis import VERSIONS, ApiKey, is_flexible
from goqueue.wire.frames import RequestHeader
from goqueue.wire.messages import build, encode_response, request_shape

PEER = "127.0.0.1:40000"


async def ask(broker: Broker, api: ApiKey, version: int | None = None, **fields: Any) -> Any:
    """The response, in its newest shape."""
    return await ask_from(PEER, broker, api, version, **fields)


async def ask_from(
    peer: str, broker: Broker, api: ApiKey, version: int | None = None, **fields: Any
) -> Any:
    """The same on a connection of one's own."""
    spoken = VERSIONS[api].max if version is None else version
    header = RequestHeader(api, spoken, 1, "tester", is_flexible(api, spoken), memoryview(b""))
    addresses = Address("127.0.0.1", 9092), Address("127.0.0.1", 8080)
    context = Context(broker, header, *addresses, peer)
    response = await HANDLERS[api](context, build(request_shape(api), **fields))
    encode_response(api, spoken, response)
    return response
