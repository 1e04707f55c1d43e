"""A partition of a topic as an object in JSON."""

import msgspec


class TopicPartition(msgspec.Struct, frozen=True, order=True):
    """`goqueue.model.ids.TopicPartition` is the pair for logs and look-ups."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"
