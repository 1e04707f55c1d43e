"""A request of every API, each about the topic `t`, the group `g` and the transactional id `x`; and
somebody who asks, whose questions are recorded."""

from typing import Any
from uuid import UUID

from goqueue.broker import Broker
from goqueue.security import Operation, Principal, ResourceType
from goqueue.server.kafka.access import Access
from goqueue.server.kafka.demands import Demand
from goqueue.wire.apis import ApiKey
from goqueue.wire.messages import duration

HOST = "127.0.0.1"
TOPIC, GROUP, ID = "t", "g", "x"
FIRST = [0]  # partition
_PRODUCER = {"producer_id": 1, "producer_epoch": 0}
_OF_ID = {"transactional_id": ID, **_PRODUCER}
_WAIT = {"timeout": duration(1000)}
_ACL = {"principal": "User:eve", "host": "*", "operation": 2, "permission_type": 3}
_ALL_ACLS = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1}
_ALL_ACLS |= {"permission_type": 1}
_QUOTA = {
    "entity": [{"entity_type": "user", "entity_name": "eve"}],
    "ops": [{"key": "producer_byte_rate", "value": 1.0, "remove": False}],
}
_RESOURCES = [(2, TOPIC), (32, GROUP), (4, "1")]
_RESOURCE_NAMES = [{"resource_type": kind, "resource_name": name} for kind, name in _RESOURCES]


class Recorder(Access):
    """Remembers what was asked."""

    __slots__ = ("asked",)

    def __init__(self, broker: Broker, name: str) -> None:
        super().__init__(broker.permissions, Principal(name), HOST)
        self.asked: set[Demand] = set()

    def allows(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        self.asked.add(Demand(resource_type, operation))
        return super().allows(operation, resource_type, name)

    def allows_any_topic(self, operation: Operation) -> bool:
        self.asked.add(Demand(ResourceType.TOPIC, operation))
        return super().allows_any_topic(operation)

    def operations(self, resource_type: ResourceType, name: str, *, asked: bool = True) -> int:
        """Are told, not demanded."""
        before = set(self.asked)
        told = super().operations(resource_type, name, asked=asked)
        self.asked = before
        return told


def _topics(of_partition: dict[str, Any] | None = None, name: str = "name") -> dict[str, Any]:
    """The topic's first partition, in most requests' words."""
    partitions: list[Any] = [of_partition] if of_partition else FIRST
    return {"topics": [{name: TOPIC, "partitions": partitions}]}


def _topic_by(topic_id: UUID, of_partition: dict[str, Any]) -> dict[str, Any]:
    return {"topics": [{"topic_id": topic_id, "name": TOPIC, "partitions": [of_partition]}]}


def requests(topic_id: UUID) -> dict[ApiKey, list[dict[str, Any]]]:
    """Plain fields; Produce and Fetch are asked otherwise."""
    acked = {"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}
    shared = {"partition_index": 0, "acknowledgement_batches": [acked]}
    sharing = {"group_id": GROUP, "member_id": "m"}
    indexes = {"topics": [{"name": TOPIC, "partition_indexes": FIRST}]}
    salted = {"iterations": 4096, "salt": b"salt", "salted_password": bytes(32)}
    return {
        ApiKey.API_VERSIONS: [{}],
        ApiKey.LIST_OFFSETS: [_topics({"partition_index": 0, "timestamp": -1})],
        ApiKey.METADATA: [
            {"topics": None, "include_topic_authorized_operations": True},
            {"topics": [{"name": TOPIC}]},
            {"topics": [{"name": "lacking"}], "allow_auto_topic_creation": True},
            {"topics": [{"name": None, "topic_id": topic_id}]},
        ],
        ApiKey.OFFSET_COMMIT: [
            {"group_id": GROUP, **_topic_by(topic_id, {"partition_index": 0})},
        ],
        ApiKey.OFFSET_FETCH: [
            {"groups": [{"group_id": GROUP, "member_epoch": -1, "topics": None}]},
            {
                "groups": [
                    {
                        "group_id": GROUP,
                        "member_epoch": -1,
                        "topics": [{"topic_id": topic_id, "partition_indexes": FIRST}],
                    }
                ]
            },
        ],
        ApiKey.FIND_COORDINATOR: [
            {"key_type": 0, "coordinator_keys": [GROUP]},
            {"key_type": 1, "coordinator_keys": [ID]},
        ],
        ApiKey.JOIN_GROUP: [{"group_id": GROUP, "protocol_type": "consumer"}],
        ApiKey.HEARTBEAT: [{"group_id": GROUP}],
        ApiKey.LEAVE_GROUP: [{"group_id": GROUP, "members": [{"member_id": "m"}]}],
        ApiKey.SYNC_GROUP: [{"group_id": GROUP}],
        ApiKey.DESCRIBE_GROUPS: [{"groups": [GROUP], "include_authorized_operations": True}],
        ApiKey.LIST_GROUPS: [{}],
        ApiKey.CREATE_TOPICS: [
            {"topics": [{"name": "new", "num_partitions": 1, "replication_factor": 1}]}
        ],
        ApiKey.DELETE_TOPICS: [
            {"topics": [{"name": TOPIC}]},
            {"topics": [{"name": None, "topic_id": topic_id}]},
        ],
        ApiKey.DELETE_RECORDS: [_topics({"partition_index": 0, "offset": 1})],
        ApiKey.INIT_PRODUCER_ID: [
            {"transactional_id": None},
            {"transactional_id": ID, "transaction_timeout": duration(60_000)},
        ],
        ApiKey.OFFSET_FOR_LEADER_EPOCH: [_topics({"partition": 0, "leader_epoch": 0}, "topic")],
        ApiKey.ADD_PARTITIONS_TO_TXN: [{"transactions": [{**_OF_ID, **_topics()}]}],
        ApiKey.ADD_OFFSETS_TO_TXN: [{**_OF_ID, "group_id": GROUP}],
        ApiKey.END_TXN: [{**_OF_ID, "committed": True}],
        ApiKey.WRITE_TXN_MARKERS: [{"markers": [{**_PRODUCER, **indexes}]}],
        ApiKey.TXN_OFFSET_COMMIT: [
            {**_OF_ID, "group_id": GROUP, **_topics({"partition_index": 0})},
        ],
        ApiKey.DESCRIBE_ACLS: [_ALL_ACLS],
        ApiKey.CREATE_ACLS: [
            {"creations": [{"resource_type": 2, "resource_name": TOPIC, **_ACL}]},
        ],
        ApiKey.DELETE_ACLS: [{"filters": [_ALL_ACLS]}],
        ApiKey.DESCRIBE_CONFIGS: [{"resources": _RESOURCE_NAMES}],
        ApiKey.ALTER_CONFIGS: [{"resources": _RESOURCE_NAMES}],
        ApiKey.INCREMENTAL_ALTER_CONFIGS: [{"resources": _RESOURCE_NAMES}],
        ApiKey.ALTER_REPLICA_LOG_DIRS: [{"dirs": [{"path": "/", **_topics()}]}],
        ApiKey.DESCRIBE_LOG_DIRS: [{"topics": None}],
        ApiKey.CREATE_PARTITIONS: [{"topics": [{"name": TOPIC, "count": 5}]}],
        ApiKey.DELETE_GROUPS: [{"groups_names": [GROUP]}],
        ApiKey.ELECT_LEADERS: [
            {"topic_partitions": None},
            {"topic_partitions": [{"topic": TOPIC, "partitions": FIRST}]},
        ],
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: [_topics({"partition_index": 0, "replicas": [1]})],
        ApiKey.LIST_PARTITION_REASSIGNMENTS: [{"topics": None}],
        ApiKey.OFFSET_DELETE: [{"group_id": GROUP, **_topics({"partition_index": 0})}],
        ApiKey.DESCRIBE_CLIENT_QUOTAS: [{}],
        ApiKey.ALTER_CLIENT_QUOTAS: [{"entries": [_QUOTA]}],
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: [{"users": None}, {"users": [{"name": "root"}]}],
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: [
            {"upsertions": [{"name": "eve", "mechanism": 1, **salted}]},
            {"deletions": [{"name": "root", "mechanism": 1}]},
        ],
        ApiKey.DESCRIBE_QUORUM: [
            {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{}]}]},
        ],
        ApiKey.UPDATE_FEATURES: [
            {**_WAIT, "feature_updates": [{"feature": "group.version", "max_version_level": 1}]},
        ],
        ApiKey.DESCRIBE_CLUSTER: [{"endpoint_type": 1}],
        ApiKey.DESCRIBE_PRODUCERS: [indexes],
        ApiKey.DESCRIBE_TRANSACTIONS: [{"transactional_ids": [ID]}],
        ApiKey.LIST_TRANSACTIONS: [{"duration_filter": -1}],
        ApiKey.CONSUMER_GROUP_HEARTBEAT: [
            {"group_id": "consumers", "member_id": "m", "subscribed_topic_names": [TOPIC]},
        ],
        ApiKey.CONSUMER_GROUP_DESCRIBE: [{"group_ids": ["consumers"]}],
        ApiKey.LIST_CONFIG_RESOURCES: [{}],
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: [
            {"topics": [], "response_partition_limit": 9},
            {"topics": [{"name": TOPIC}], "response_partition_limit": 9},
        ],
        ApiKey.SHARE_GROUP_HEARTBEAT: [
            {"group_id": "sharers", "member_id": "m", "subscribed_topic_names": [TOPIC]},
        ],
        ApiKey.SHARE_GROUP_DESCRIBE: [{"group_ids": ["sharers"]}],
        ApiKey.SHARE_FETCH: [{**sharing, **_topic_by_id(topic_id, {"partition_index": 0})}],
        ApiKey.SHARE_ACKNOWLEDGE: [
            {**sharing, "share_session_epoch": 1, **_topic_by_id(topic_id, shared)},
        ],
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: [
            {"groups": [{"group_id": "sharers", "topics": None}]},
            {
                "groups": [
                    {
                        "group_id": "sharers",
                        "topics": [{"topic_name": TOPIC, "partitions": FIRST}],
                    }
                ]
            },
        ],
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: [
            {"group_id": "empty", **_topics({"partition_index": 0}, "topic_name")},
        ],
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: [
            {"group_id": "empty", "topics": [{"topic_name": TOPIC}]},
        ],
    }


def _topic_by_id(topic_id: UUID, of_partition: dict[str, Any]) -> dict[str, Any]:
    return {"topics": [{"topic_id": topic_id, "partitions": [of_partition]}]}
