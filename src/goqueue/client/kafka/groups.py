"""The offsets of a group, seen from outside: by a program that keeps its own and shows them."""

from collections.abc import Mapping
from typing import Any

from goqueue.client.kafka.caller import GROUP, Caller, by_topic
from goqueue.client.kafka.errors import check_code
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.wire.apis import ApiKey


class GroupVerbs(Caller):
    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Set a group's offsets; refused while the group has members."""

        def read(response: Any) -> None:
            for topic in response.topics:
                for partition in topic.partitions:
                    where = TopicPartition(topic.name, partition.partition_index)
                    check_code(partition.error_code, f"offset of {where} in group {group!r}")

        topics = [
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": index,
                        "committed_offset": offsets[TopicPartition(TopicName(topic), index)],
                    }
                    for index in indexes
                ],
            }
            for topic, indexes in by_topic(offsets).items()
        ]
        self._call(
            ApiKey.OFFSET_COMMIT, read, coordinator=(GROUP, group), group_id=group, topics=topics
        )

    def committed_offsets(self, group: str) -> dict[TopicPartition, int]:
        """Every offset that a group has committed; empty for a group that nobody knows."""

        def read(response: Any) -> dict[TopicPartition, int]:
            (found,) = response.groups
            check_code(found.error_code, f"offsets of group {group!r}")
            return {
                TopicPartition(topic.name, partition.partition_index): partition.committed_offset
                for topic in found.topics
                for partition in topic.partitions
                if partition.committed_offset >= 0
            }

        return self._call(
            ApiKey.OFFSET_FETCH,
            read,
            coordinator=(GROUP, group),
            groups=[{"group_id": group, "topics": None}],
        )
