"""What each Kafka API demands of whoever calls it, as Apache Kafka does.

The handlers ask, since each entry of a request has its own answer (`access.py`).  The table says
what they may ask for: a test calls every API and holds what was asked against it.  An API that is
not in the table is not served.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from goqueue.security import Operation, ResourceType
from goqueue.wire.apis import ApiKey

READ, WRITE, CREATE, DELETE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
ALTER, DESCRIBE = Operation.ALTER, Operation.DESCRIBE
DESCRIBE_CONFIGS, ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS


class Demand(NamedTuple):
    resource_type: ResourceType
    operation: Operation


def _topic(*operations: Operation) -> frozenset[Demand]:
    return frozenset(Demand(ResourceType.TOPIC, each) for each in operations)


def _group(*operations: Operation) -> frozenset[Demand]:
    return frozenset(Demand(ResourceType.GROUP, each) for each in operations)


def _cluster(*operations: Operation) -> frozenset[Demand]:
    return frozenset(Demand(ResourceType.CLUSTER, each) for each in operations)


def _transactional_id(*operations: Operation) -> frozenset[Demand]:
    return frozenset(Demand(ResourceType.TRANSACTIONAL_ID, each) for each in operations)


NOTHING: Final[frozenset[Demand]] = frozenset()
# To create a topic that is missing; who may create all of them may create any.
_CREATION: Final = _topic(CREATE) | _cluster(CREATE)

DEMANDS: Final[Mapping[int, frozenset[Demand]]] = {
    # --- connections
    ApiKey.API_VERSIONS: NOTHING,
    ApiKey.SASL_HANDSHAKE: NOTHING,
    ApiKey.SASL_AUTHENTICATE: NOTHING,
    # --- messages
    ApiKey.PRODUCE: _topic(WRITE) | _transactional_id(WRITE) | _CREATION,
    ApiKey.FETCH: _topic(READ),
    ApiKey.LIST_OFFSETS: _topic(DESCRIBE),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _topic(DESCRIBE),
    ApiKey.DELETE_RECORDS: _topic(DELETE),
    # --- topics and the cluster
    ApiKey.METADATA: _topic(DESCRIBE) | _CREATION,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _topic(DESCRIBE),
    ApiKey.DESCRIBE_CLUSTER: NOTHING,  # nodes and addresses, which Metadata shows to all, too
    ApiKey.CREATE_TOPICS: _CREATION | _topic(DESCRIBE_CONFIGS),
    ApiKey.DELETE_TOPICS: _topic(DELETE),
    ApiKey.CREATE_PARTITIONS: _topic(ALTER),
    ApiKey.DESCRIBE_CONFIGS: _topic(DESCRIBE_CONFIGS)
    | _group(DESCRIBE_CONFIGS)
    | _cluster(DESCRIBE_CONFIGS),
    ApiKey.ALTER_CONFIGS: _topic(ALTER_CONFIGS) | _group(ALTER_CONFIGS) | _cluster(ALTER_CONFIGS),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _topic(ALTER_CONFIGS)
    | _group(ALTER_CONFIGS)
    | _cluster(ALTER_CONFIGS),
    ApiKey.LIST_CONFIG_RESOURCES: _cluster(DESCRIBE_CONFIGS),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _cluster(DESCRIBE_CONFIGS),
    ApiKey.ALTER_CLIENT_QUOTAS: _cluster(ALTER_CONFIGS),
    ApiKey.DESCRIBE_LOG_DIRS: _cluster(DESCRIBE),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _cluster(ALTER),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _cluster(DESCRIBE),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _cluster(ALTER),
    ApiKey.ELECT_LEADERS: _cluster(ALTER),
    ApiKey.DESCRIBE_QUORUM: _cluster(DESCRIBE),
    ApiKey.UPDATE_FEATURES: _cluster(ALTER),
    # --- permissions and passwords
    ApiKey.DESCRIBE_ACLS: _cluster(DESCRIBE),
    ApiKey.CREATE_ACLS: _cluster(ALTER),
    ApiKey.DELETE_ACLS: _cluster(ALTER),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _cluster(DESCRIBE),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _cluster(ALTER),
    # --- groups
    ApiKey.FIND_COORDINATOR: _group(DESCRIBE) | _transactional_id(DESCRIBE),
    ApiKey.JOIN_GROUP: _group(READ),
    ApiKey.SYNC_GROUP: _group(READ),
    ApiKey.HEARTBEAT: _group(READ),
    ApiKey.LEAVE_GROUP: _group(READ),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _group(READ) | _topic(DESCRIBE),
    ApiKey.CONSUMER_GROUP_DESCRIBE: _group(DESCRIBE) | _topic(DESCRIBE),
    ApiKey.LIST_GROUPS: _group(DESCRIBE) | _cluster(DESCRIBE),
    ApiKey.DESCRIBE_GROUPS: _group(DESCRIBE),
    ApiKey.DELETE_GROUPS: _group(DELETE),
    ApiKey.OFFSET_COMMIT: _group(READ) | _topic(READ),
    ApiKey.OFFSET_FETCH: _group(DESCRIBE) | _topic(DESCRIBE),
    ApiKey.OFFSET_DELETE: _group(DELETE) | _topic(READ),
    # --- share groups
    ApiKey.SHARE_GROUP_HEARTBEAT: _group(READ) | _topic(DESCRIBE),
    ApiKey.SHARE_GROUP_DESCRIBE: _group(DESCRIBE) | _topic(DESCRIBE),
    ApiKey.SHARE_FETCH: _group(READ) | _topic(READ),
    ApiKey.SHARE_ACKNOWLEDGE: _group(READ) | _topic(READ),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: _group(DESCRIBE) | _topic(DESCRIBE),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _group(READ) | _topic(READ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _group(DELETE) | _topic(READ),
    # --- transactions
    ApiKey.INIT_PRODUCER_ID: _transactional_id(WRITE)
    | _cluster(Operation.IDEMPOTENT_WRITE)
    | _topic(WRITE),  # of any topic
    ApiKey.ADD_PARTITIONS_TO_TXN: _transactional_id(WRITE) | _topic(WRITE),
    ApiKey.ADD_OFFSETS_TO_TXN: _transactional_id(WRITE) | _group(READ),
    ApiKey.TXN_OFFSET_COMMIT: _transactional_id(WRITE) | _group(READ) | _topic(READ),
    ApiKey.END_TXN: _transactional_id(WRITE),
    ApiKey.WRITE_TXN_MARKERS: _cluster(ALTER, Operation.CLUSTER_ACTION),
    ApiKey.DESCRIBE_TRANSACTIONS: _transactional_id(DESCRIBE) | _topic(DESCRIBE),
    ApiKey.LIST_TRANSACTIONS: _transactional_id(DESCRIBE),
    ApiKey.DESCRIBE_PRODUCERS: _topic(READ),
}
