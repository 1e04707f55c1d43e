"""What a handler may need besides the request."""

import msgspec

from goqueue.broker import Broker
from goqueue.model.config import Address
from goqueue.server.kafka.access import Access
from goqueue.wire.frames import RequestHeader


class Context(msgspec.Struct, frozen=True):
    broker: Broker
    header: RequestHeader
    address: Address  # where this client reaches us
    http_address: Address | None  # the same for HTTP, when it is served
    peer: str
    access: Access  # what this client may do
