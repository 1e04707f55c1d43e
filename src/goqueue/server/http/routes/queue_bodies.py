"""What goes in and out of the operations on queues, and what they may refuse with."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

from goqueue.api.errors import MissingPartition
from goqueue.api.groups import NAME_LENGTH_MAX
from goqueue.api.messages import ReadEncoding
from goqueue.api.parsing import parse_wait
from goqueue.api.queues import PeekedMessage, QueueMessage
from goqueue.model.errors import GoQueueError, InvalidRequest
from goqueue.model.ids import TopicPartition
from goqueue.model.limits import VISIBILITY_MS_MAX
from goqueue.model.times import time_text
from goqueue.queue import Delivered, DeliveryBatch, Peeked, singles
from goqueue.queue.lanes import NAMES
from goqueue.queue.receipts import frame
from goqueue.server.http.routes.bodies import body_of
from goqueue.server.http.routes.family import query
from goqueue.server.http.routes.message_bodies import message_body, text_header

DELAY_MS_MAX: Final = 30 * 24 * 3_600_000


GroupQuery = Annotated[
    str, query("Whose queue it is: any name.", min_length=1, max_length=NAME_LENGTH_MAX)
]


def milliseconds(given: int | str, name: str, *, low: int = 0, high: int) -> int:
    """A duration as a number or a text; refused outside of its range."""
    found = parse_wait(given) if isinstance(given, str) else given
    if not low <= found <= high:
        raise InvalidRequest(f"{name}: {found} ms; {low} to {high} are possible")
    return found


def visibility_ms(given: int | str, name: str = "visibility") -> int:
    return milliseconds(given, name, low=1, high=VISIBILITY_MS_MAX)


# --- what may be refused ------------------------------------------------------------------------

MEANINGS: Final = {
    404: "No such topic, group, delivery or dead letter.",
    409: "The delivery is over: its time ran out, or it was settled another way.",
}


# --- receiving ----------------------------------------------------------------------------------


def queue_messages(
    deliveries: Sequence[DeliveryBatch], encoding: ReadEncoding
) -> list[QueueMessage]:
    messages: list[QueueMessage] = []
    for delivery in deliveries:
        try:
            if encoding == "auto":
                messages += _text_messages(delivery)
                continue
        except UnicodeDecodeError:  # some are not: one by one, then
            pass
        messages += [queue_message(each, encoding) for each in delivery.messages()]
    return messages


def _text_messages(delivery: DeliveryBatch) -> list[QueueMessage]:
    """As `queue_message` gives them, in a third of the time: much is the same in all of them."""
    where = delivery.where
    topic, partition, until = where.topic, where.partition, time_text(delivery.deadline)
    before, after = frame(topic, partition, delivery.lease_id, where.group_id)
    return [
        QueueMessage(
            topic,
            partition,
            offset := record.offset,
            time_text(record.timestamp),
            None if (key := record.key) is None else key.decode(),
            None if (value := record.value) is None else value.decode(),
            [text_header(*header) for header in headers] if (headers := record.headers) else [],
            NAMES[lane],
            attempt,
            f"{before}{offset}:{attempt}{after}",
            until,
            failures,
            timeouts,
        )
        for record, attempt, lane, failures, timeouts in singles(delivery.chosen)
    ]


def queue_message(delivered: Delivered, encoding: ReadEncoding) -> QueueMessage:
    body = message_body(delivered.record, delivered.partition, encoding)
    return body_of(
        QueueMessage,
        body,
        topic=delivered.topic,
        priority=delivered.priority,
        attempt=delivered.attempt,
        receipt_handle=delivered.receipt,
        visible_until=time_text(delivered.deadline),
        failures=delivered.failures,
        timeouts=delivered.timeouts,
    )


def peeked_message(peeked: Peeked, encoding: ReadEncoding) -> PeekedMessage:
    body = message_body(peeked.record, peeked.partition, encoding)
    return body_of(
        PeekedMessage, body, topic=peeked.topic, priority=peeked.priority, attempts=peeked.attempt
    )


def missing_partitions(missing: Mapping[TopicPartition, GoQueueError]) -> list[MissingPartition]:
    return [
        MissingPartition(place.topic, place.partition, why.code, str(why))
        for place, why in sorted(missing.items(), key=lambda each: each[0])
    ]
