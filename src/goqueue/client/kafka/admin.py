"""Topics and settings."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, Literal

from kio.schema.errors import ErrorCode

from goqueue.client.errors import ClientError
from goqueue.client.kafka.caller import Caller, by_topic
from goqueue.client.kafka.deadlines import Deadline
from goqueue.client.kafka.errors import KafkaRefused, check_code
from goqueue.client.kafka.results import Node, TopicLayout
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.wire.apis import ApiKey
from goqueue.wire.client_codec import build_request

ResourceKind = Literal["topic", "broker", "group"]
HTTP_ADDRESS: Final = "goqueue.http.address"
_RESOURCES: Final[Mapping[ResourceKind, int]] = {"topic": 2, "broker": 4, "group": 32}


class AdminVerbs(Caller):
    def metadata(
        self,
        topics: Collection[str] | None = None,
        *,
        creates: bool = False,
        skips_missing: bool = False,
    ) -> dict[str, TopicLayout]:
        """Topics by name, or all of them; raises `KafkaRefused` for one that does not exist.

        With `creates` the broker makes it, if it is set to (`auto.create.topics.enable`); with
        `skips_missing` it is left out.
        """
        return self._retry(
            lambda deadline: self._cluster.layouts(
                topics, deadline, creates=creates, skips_missing=skips_missing
            )
        )

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
            check_code(result.error_code, f"topic {name!r}", result.error_message)

        self._call(ApiKey.CREATE_TOPICS, read, is_repeatable=False, topics=[topic])

    def delete_topic(self, name: str) -> None:
        def read(response: Any) -> None:
            check_code(response.responses[0].error_code, f"topic {name!r}")

        self._call(ApiKey.DELETE_TOPICS, read, is_repeatable=False, topic_names=[name])
        self._cluster.forget()

    def add_partitions(self, topic: str, *, total: int) -> None:
        """Make it have `total` partitions."""

        def read(response: Any) -> None:
            (result,) = response.results
            check_code(result.error_code, f"partitions of {topic!r}", result.error_message)

        topics = [{"name": topic, "count": total, "assignments": None}]
        self._call(ApiKey.CREATE_PARTITIONS, read, is_repeatable=False, topics=topics)
        self._cluster.forget()

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        """Make these offsets the earliest of their partitions."""

        def attempt(deadline: Deadline) -> None:
            for node, share in self._cluster.leaders(before, deadline).items():
                topics = [
                    _deletion(topic, indexes, before) for topic, indexes in by_topic(share).items()
                ]
                request = build_request(ApiKey.DELETE_RECORDS, topics=topics)
                answer = self._cluster.ask_for(node, ApiKey.DELETE_RECORDS, request, deadline)
                for result in (each for topic in answer.topics for each in topic.partitions):
                    check_code(
                        result.error_code, f"deleting from partition {result.partition_index}"
                    )

        self._retry(attempt)

    def log_sizes(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Bytes that the logs of partitions take, as their leaders say."""

        def attempt(deadline: Deadline) -> dict[TopicPartition, int]:
            found: dict[TopicPartition, int] = {}
            for node, share in self._cluster.leaders(partitions, deadline).items():
                topics = [
                    {"topic": topic, "partitions": indexes}
                    for topic, indexes in by_topic(share).items()
                ]
                request = build_request(ApiKey.DESCRIBE_LOG_DIRS, topics=topics)
                found |= _sizes(
                    self._cluster.ask_for(node, ApiKey.DESCRIBE_LOG_DIRS, request, deadline)
                )
            return found

        return self._retry(attempt)

    def describe_configs(self, kind: ResourceKind, name: str) -> dict[str, str | None]:
        """The settings of a topic, a group, or a broker by its number."""
        return self._call(
            ApiKey.DESCRIBE_CONFIGS,
            lambda response: _settings(response, kind, name),
            resources=[_resource(kind, name)],
        )

    def http_url(self) -> str:
        """Where the brokers' HTTP listeners are, with commas between, for a client of HTTP.

        Those of brokers that do not answer are left out.  Raises `KafkaRefused` when none says.
        """

        def attempt(deadline: Deadline) -> str:
            found, failures = [], []
            for number, node in self._cluster.nodes(deadline).items():
                try:
                    found.append(self._http_url_of(number, node, deadline))
                except ClientError as error:
                    failures.append(error)
            if not found:
                raise failures[0]
            return ",".join(found)

        return self._retry(attempt)

    def _http_url_of(self, number: int, node: Node, deadline: Deadline) -> str:
        resource = _resource("broker", str(number), [HTTP_ADDRESS])
        request = build_request(ApiKey.DESCRIBE_CONFIGS, resources=[resource])
        response = self._cluster.ask_for(node, ApiKey.DESCRIBE_CONFIGS, request, deadline)
        url = _settings(response, "broker", str(number)).get(HTTP_ADDRESS)
        if not url:
            raise KafkaRefused(
                f"HTTP address of {node}: it does not say; is it a GoQueue server?",
                ErrorCode.unsupported_version,
            )
        return url


def _resource(kind: ResourceKind, name: str, keys: list[str] | None = None) -> dict[str, Any]:
    return {
        "resource_type": _RESOURCES[kind],
        "resource_name": name,
        "configuration_keys": keys,
    }


def _settings(response: Any, kind: ResourceKind, name: str) -> dict[str, str | None]:
    (result,) = response.results
    check_code(result.error_code, f"settings of {kind} {name!r}", result.error_message)
    return {entry.name: entry.value for entry in result.configs}


def _deletion(
    topic: str, indexes: Iterable[int], before: Mapping[TopicPartition, int]
) -> dict[str, Any]:
    partitions = [
        {"partition_index": index, "offset": before[TopicPartition(TopicName(topic), index)]}
        for index in indexes
    ]
    return {"name": topic, "partitions": partitions}


def _sizes(response: Any) -> dict[TopicPartition, int]:
    check_code(response.error_code, "sizes of logs")
    return {
        TopicPartition(topic.name, each.partition_index): each.partition_size
        for directory in response.results
        for topic in directory.topics
        for each in topic.partitions
    }
