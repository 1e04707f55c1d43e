"""What a consumer asks for, from the listener to the dispatcher."""

from collections.abc import Sequence

import msgspec

from goqueue.broker.queues.acknowledgement import check_number
from goqueue.model.ids import GroupId, TopicPartition
from goqueue.model.limits import RECEIVE_BYTES_MAX, RECEIVE_MESSAGES_MAX, VISIBILITY_MS_MAX
from goqueue.model.names import check_length


class ReceiveRequest(msgspec.Struct, frozen=True):
    topics: Sequence[str]
    group_id: GroupId
    consumer: str
    max_messages: int = 10
    max_bytes: int = RECEIVE_BYTES_MAX  # of keys and values; at least one message is let through
    visibility_ms: int | None = None
    places: frozenset[TopicPartition] | None = None  # partitions; None: all of the topics
    whole_batches: bool = False  # rather more than `max_messages` than a part of a batch

    def check(self) -> None:
        check_length(self.group_id, "group")
        check_length(self.consumer, "consumer")
        check_number(self.max_messages, "max_messages", 1, RECEIVE_MESSAGES_MAX)
        check_number(self.max_bytes, "max_bytes", 1, 2**31)
        if self.visibility_ms is not None:
            check_number(self.visibility_ms, "visibility_ms", 1, VISIBILITY_MS_MAX)
