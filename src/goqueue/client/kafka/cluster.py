"""Who leads what, and a connection to each broker that is needed.

What is known is forgotten when a broker says it is wrong or is gone, and asked for again.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from goqueue.client.errors import ClientError, ServerUnreachable
from goqueue.client.kafka.connection import Connection
from goqueue.client.kafka.deadlines import Deadline
from goqueue.client.kafka.errors import KafkaRefused, check_code
from goqueue.client.kafka.login import NO_LOGIN, KafkaLogin
from goqueue.client.kafka.results import Node, TopicLayout
from goqueue.model.ids import TopicPartition
from goqueue.wire.apis import ApiKey
from goqueue.wire.client_codec import build_request
from goqueue.wire.primitives import Buffer

DEFAULT_PORT: Final = 9092


def parse_bootstrap(text: str) -> list[Node]:
    """`host:port,host:port`; a port that is left out is 9092.  Raises `ServerUnreachable`."""
    nodes = [_node(item.strip()) for item in text.split(",") if item.strip()]
    if not nodes:
        raise ServerUnreachable("bootstrap.servers is empty: write HOST:PORT[,HOST:PORT]")
    return nodes


def _node(text: str) -> Node:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(DEFAULT_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65_536:
        raise ServerUnreachable(f"bootstrap.servers: {text!r} is not HOST:PORT")
    return Node(host, int(port))


class Cluster:
    def __init__(
        self, bootstrap: Sequence[Node], client_id: str, login: KafkaLogin = NO_LOGIN
    ) -> None:
        self._bootstrap = bootstrap
        self._learned: tuple[Node, ...] = ()  # of the newest metadata: the first ones may be gone
        self._client_id = client_id
        self._login = login
        self._connections: dict[Node, Connection] = {}
        self._layouts: dict[str, TopicLayout] = {}
        self._coordinators: dict[tuple[int, str], Node] = {}

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def forget(self) -> None:
        """Ask again who leads what."""
        self._layouts.clear()
        self._coordinators.clear()

    # --- asking -----------------------------------------------------------------------------------

    def ask(
        self, node: Node | None, api_key: ApiKey, body: Sequence[Buffer], deadline: Deadline
    ) -> memoryview:
        """The body of a node's answer, or of any node's."""
        connection = self._any(deadline) if node is None else self.connection(node, deadline)
        try:
            return connection.ask(api_key, body, deadline)
        except ClientError:
            self.drop(connection)
            raise

    def ask_for(
        self, node: Node | None, api_key: ApiKey, request: object, deadline: Deadline
    ) -> Any:
        """The same with a request and a response as objects."""
        connection = self._any(deadline) if node is None else self.connection(node, deadline)
        try:
            return connection.ask_for(api_key, request, deadline)
        except ClientError:
            self.drop(connection)
            raise

    def connection(self, node: Node, deadline: Deadline) -> Connection:
        found = self._connections.get(node)
        if found is None:
            found = Connection(node, self._client_id, deadline, self._login)
            self._connections[node] = found
        return found

    def drop(self, connection: Connection) -> None:
        connection.close()
        self._connections.pop(connection.node, None)

    def _any(self, deadline: Deadline) -> Connection:
        """A broker of the list that answers, or of those that one told of; those with an open
        connection are asked first."""
        known = dict.fromkeys((*self._bootstrap, *self._learned))
        for node in known:
            if node in self._connections:
                return self._connections[node]
        failures = []
        for node in known:
            try:
                return self.connection(node, deadline)
            except ServerUnreachable as error:
                failures.append(error)
        raise failures[0]

    # --- knowing ----------------------------------------------------------------------------------

    def layouts(
        self,
        topics: Collection[str] | None,
        deadline: Deadline,
        *,
        creates: bool = False,
        skips_missing: bool = False,
    ) -> dict[str, TopicLayout]:
        """Fresh from a broker; None: all topics.  For one that does not exist, raises or skips."""
        asked = None if topics is None else [{"name": name} for name in topics]
        request = build_request(ApiKey.METADATA, topics=asked, allow_auto_topic_creation=creates)
        response = self.ask_for(None, ApiKey.METADATA, request, deadline)
        nodes = self._learn(response)
        found = {}
        for topic in response.topics:
            if skips_missing and topic.error_code is ErrorCode.unknown_topic_or_partition:
                continue
            check_code(topic.error_code, f"topic {topic.name!r}")
            found[topic.name] = _layout(topic, nodes)
        self._layouts.update(found)
        return found

    def nodes(self, deadline: Deadline) -> dict[int, Node]:
        """All brokers, by their numbers."""
        request = build_request(ApiKey.METADATA, topics=[], allow_auto_topic_creation=False)
        return self._learn(self.ask_for(None, ApiKey.METADATA, request, deadline))

    def _learn(self, response: Any) -> dict[int, Node]:
        nodes = {broker.node_id: Node(broker.host, broker.port) for broker in response.brokers}
        self._learned = tuple(nodes.values())
        return nodes

    def leaders(
        self, wanted: Iterable[TopicPartition], deadline: Deadline
    ) -> dict[Node, list[TopicPartition]]:
        """Which broker to ask about which of the partitions."""
        wanted = list(wanted)
        unknown = {each.topic for each in wanted} - self._layouts.keys()
        if unknown:
            self.layouts(sorted(unknown), deadline)
        shares: dict[Node, list[TopicPartition]] = {}
        for each in wanted:
            shares.setdefault(self._leader(each), []).append(each)
        return shares

    def _leader(self, wanted: TopicPartition) -> Node:
        layout = self._layouts[wanted.topic]
        if not 0 <= wanted.partition < layout.partition_count:
            self._layouts.pop(wanted.topic)  # it may have been added since
            raise KafkaRefused(
                f"{wanted}: the topic has {layout.partition_count} partitions",
                ErrorCode.unknown_topic_or_partition,
            )
        leader = layout.leaders.get(wanted.partition)
        if leader is None:
            raise KafkaRefused(str(wanted), ErrorCode.leader_not_available)
        return leader

    def coordinator(self, key_type: int, key: str, deadline: Deadline) -> Node:
        """The broker that keeps a group (0) or a transactional id (1)."""
        known = self._coordinators.get((key_type, key))
        if known is not None:
            return known
        request = build_request(ApiKey.FIND_COORDINATOR, key_type=key_type, coordinator_keys=[key])
        response = self.ask_for(None, ApiKey.FIND_COORDINATOR, request, deadline)
        (found,) = response.coordinators
        check_code(found.error_code, f"coordinator of {key!r}", found.error_message)
        node = self._coordinators[key_type, key] = Node(found.host, found.port)
        return node


def _layout(topic: Any, nodes: Mapping[int, Node]) -> TopicLayout:
    leaders = {
        partition.partition_index: nodes[partition.leader_id]
        for partition in topic.partitions
        if partition.leader_id in nodes
    }
    count, topic_id = len(topic.partitions), topic.topic_id or UUID(int=0)
    return TopicLayout(topic.name, count, topic.is_internal, leaders, topic_id)
