"""Messages that are published in a transaction: one with a sequence, or many at once."""

import base64
import binascii
from typing import Any

import msgspec
from litestar import Request
from litestar.params import JSONBody

from goqueue.api.messages import MessageInput
from goqueue.api.transactions import (
    PublishBody,
    PublishedInTransaction,
    PublishedMany,
    PublishMany,
    TransactionMessage,
)
from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.broker.messages.transactional_publish import NO_SEQUENCE
from goqueue.model.errors import InvalidRequest
from goqueue.model.names import topic_name
from goqueue.server.http.asgi.dependencies import TheBroker, TheTransactionMessages
from goqueue.server.http.routes.bodies import body_of
from goqueue.server.http.routes.family import Routes
from goqueue.server.http.routes.message_bodies import to_outgoing
from goqueue.server.http.routes.trace_context import continue_trace
from goqueue.server.http.routes.transactions import MEANINGS, who
from goqueue.txn import ProducerIdentity

routes = Routes("transactions", MEANINGS)


@routes.post("/transactions/publish", "Publish a message in a transaction", 404, 409, 504, 507)
async def publish_in_transaction(
    broker: TheBroker,
    transaction_messages: TheTransactionMessages,
    request: Request[Any, Any, Any],
    data: JSONBody[PublishBody],
) -> PublishedInTransaction:
    """Durable on return; readers see it when the transaction is committed, or never."""
    who = ProducerIdentity(data.producer_id, data.epoch)
    (message,) = continue_trace([_message(data)], request)
    published = await transaction_messages.publish(
        data.transactional_id or await broker.transactions.find_id(who),
        who,
        topic_name(data.topic),
        message,
        sequence=NO_SEQUENCE if data.sequence is None else data.sequence,
        transaction_id=data.transaction_id,
    )
    return body_of(PublishedInTransaction, published)


def _message(data: PublishBody) -> OutgoingMessage:
    return OutgoingMessage(
        _bytes(data.value, data.encoding, "value"),
        _bytes(data.key, data.encoding, "key"),
        tuple((name, _bytes(each, data.encoding, name)) for name, each in data.headers.items()),
        None if data.partition < 0 else data.partition,
        data.timestamp,
    )


def _bytes(given: Any, encoding: str, name: str) -> bytes | None:
    if given is None:
        return None
    if encoding == "base64":
        try:
            return base64.b64decode(given, validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise InvalidRequest(f"{name}: not base64: {error}") from error
    return given.encode() if isinstance(given, str) else msgspec.json.encode(given)


@routes.post("/transactions/messages", "Publish many messages in a transaction", 404, 409, 504, 507)
async def publish_many_in_transaction(
    transaction_messages: TheTransactionMessages,
    request: Request[Any, Any, Any],
    data: JSONBody[PublishMany],
) -> PublishedMany:
    """As `publish`, with one wait for the disk.  When one message is refused, none is written.

    Nothing here recognises a repetition: when no answer came, abort the transaction.
    """
    messages = [
        to_outgoing(_input(message), place, data.encoding)
        for place, message in enumerate(data.messages)
    ]
    published = await transaction_messages.publish_many(
        data.transactional_id,
        who(data),
        topic_name(data.topic),
        continue_trace(messages, request),
        transaction_id=data.transaction_id,
    )
    return PublishedMany([body_of(PublishedInTransaction, each) for each in published])


def _input(message: TransactionMessage) -> MessageInput:
    return MessageInput(
        msgspec.Raw(msgspec.json.encode(message.value)),
        message.key,
        message.headers,
        message.partition,
        message.timestamp,
        message.priority,
        message.ttl,
        message.encoding,
        message.delay,
        message.deliver_at,
    )
