"""Topics and settings."""

from collections.abc import Collection, Mapping
from typing import Any, Final, Literal

from goqueue.client.kafka.caller import Caller
from goqueue.client.kafka.errors import checked
from goqueue.client.kafka.results import TopicLayout
from goqueue.wire.apis import ApiKey

ResourceKind = Literal["topic", "broker", "group"]
_RESOURCES: Final[Mapping[ResourceKind, int]] = {"topic": 2, "broker": 4, "group": 32}


class AdminVerbs(Caller):
    def metadata(self, topics: Collection[str] | None = None) -> dict[str, TopicLayout]:
        """Topics by name, or all of them; raises `KafkaRefused` for one that does not exist."""
        return self._tried(lambda deadline: self._cluster.layouts(topics, deadline))

    def create_topic(
        self, name: str, *, partitions: int = -1, settings: Mapping[str, str] | None = None
    ) -> None:
        """-1 partitions: as many as the server's default.  Raises if it exists."""
        topic = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": -1,
            "configs": [{"name": key, "value": value} for key, value in (settings or {}).items()],
        }

        def read(response: Any) -> None:
            (result,) = response.topics
            checked(result.error_code, f"topic {name!r}", result.error_message)

        self._asked(ApiKey.CREATE_TOPICS, read, is_repeatable=False, topics=[topic])

    def delete_topic(self, name: str) -> None:
        def read(response: Any) -> None:
            checked(response.responses[0].error_code, f"topic {name!r}")

        self._asked(ApiKey.DELETE_TOPICS, read, is_repeatable=False, topic_names=[name])
        self._cluster.forget()

    def add_partitions(self, topic: str, *, total: int) -> None:
        """Make it have `total` partitions."""

        def read(response: Any) -> None:
            (result,) = response.results
            checked(result.error_code, f"partitions of {topic!r}", result.error_message)

        topics = [{"name": topic, "count": total, "assignments": None}]
        self._asked(ApiKey.CREATE_PARTITIONS, read, is_repeatable=False, topics=topics)
        self._cluster.forget()

    def describe_configs(self, kind: ResourceKind, name: str) -> dict[str, str | None]:
        """The settings of a topic, a group, or a broker by its number."""

        def read(response: Any) -> dict[str, str | None]:
            (result,) = response.results
            checked(result.error_code, f"settings of {kind} {name!r}", result.error_message)
            return {entry.name: entry.value for entry in result.configs}

        resource = {
            "resource_type": _RESOURCES[kind],
            "resource_name": name,
            "configuration_keys": None,
        }
        return self._asked(ApiKey.DESCRIBE_CONFIGS, read, resources=[resource])
