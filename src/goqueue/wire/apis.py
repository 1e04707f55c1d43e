"""The APIs of this codebase, and their versions.

The ranges are those which Apache Kafka 4.x serves, as far as `kio` knows them.  `flexible_from` is
the first version with compact lengths and tagged fields (KIP-482); it also decides the version of
the headers.

The table is written out, rather than read from kio, so that a start does not import
two hundred schema modules; a test holds it against kio.

A listener advertises what it has handlers for, and picks those rows from here.
"""

import enum
from typing import Final, NamedTuple


class ApiKey(enum.IntEnum):
    """An API's number.  The name, in lower case, is that of kio's schema package."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    DESCRIBE_QUORUM = 55
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


class Versions(NamedTuple):
    """The versions of one API, both ends included."""

    min: int
    max: int
    flexible_from: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.min <= version <= self.max


NEVER: Final = 32_767  # `flexible_from` of an API that has no flexible version

VERSIONS: Final[dict[ApiKey, Versions]] = {
    ApiKey.PRODUCE: Versions(3, 13, 9),
    ApiKey.FETCH: Versions(4, 18, 12),
    ApiKey.LIST_OFFSETS: Versions(1, 11, 6),
    ApiKey.METADATA: Versions(0, 13, 9),
    ApiKey.OFFSET_COMMIT: Versions(2, 10, 8),
    ApiKey.OFFSET_FETCH: Versions(1, 10, 6),
    ApiKey.FIND_COORDINATOR: Versions(0, 6, 3),
    ApiKey.JOIN_GROUP: Versions(0, 9, 6),
    ApiKey.HEARTBEAT: Versions(0, 4, 4),
    ApiKey.LEAVE_GROUP: Versions(0, 5, 4),
    ApiKey.SYNC_GROUP: Versions(0, 5, 4),
    ApiKey.DESCRIBE_GROUPS: Versions(0, 6, 5),
    ApiKey.LIST_GROUPS: Versions(0, 5, 3),
    ApiKey.SASL_HANDSHAKE: Versions(0, 1, NEVER),
    ApiKey.API_VERSIONS: Versions(0, 4, 3),
    ApiKey.CREATE_TOPICS: Versions(2, 7, 5),
    ApiKey.DELETE_TOPICS: Versions(1, 6, 4),
    ApiKey.DELETE_RECORDS: Versions(0, 2, 2),
    ApiKey.INIT_PRODUCER_ID: Versions(0, 6, 2),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Versions(2, 4, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: Versions(0, 5, 3),
    ApiKey.ADD_OFFSETS_TO_TXN: Versions(0, 4, 3),
    ApiKey.END_TXN: Versions(0, 5, 3),
    ApiKey.WRITE_TXN_MARKERS: Versions(1, 2, 1),
    ApiKey.TXN_OFFSET_COMMIT: Versions(0, 5, 3),
    ApiKey.DESCRIBE_ACLS: Versions(1, 3, 2),
    ApiKey.CREATE_ACLS: Versions(1, 3, 2),
    ApiKey.DELETE_ACLS: Versions(1, 3, 2),
    ApiKey.DESCRIBE_CONFIGS: Versions(1, 4, 4),
    ApiKey.ALTER_CONFIGS: Versions(0, 2, 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Versions(1, 2, 2),
    ApiKey.DESCRIBE_LOG_DIRS: Versions(1, 5, 2),
    ApiKey.SASL_AUTHENTICATE: Versions(0, 2, 2),
    ApiKey.CREATE_PARTITIONS: Versions(0, 3, 2),
    ApiKey.DELETE_GROUPS: Versions(0, 2, 2),
    ApiKey.ELECT_LEADERS: Versions(0, 2, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Versions(0, 1, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Versions(0, 1, 0),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Versions(0, 0, 0),
    ApiKey.OFFSET_DELETE: Versions(0, 0, NEVER),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Versions(0, 1, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: Versions(0, 1, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Versions(0, 0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Versions(0, 0, 0),
    ApiKey.DESCRIBE_QUORUM: Versions(0, 2, 0),
    ApiKey.UPDATE_FEATURES: Versions(0, 2, 0),
    ApiKey.DESCRIBE_CLUSTER: Versions(0, 2, 0),
    ApiKey.DESCRIBE_PRODUCERS: Versions(0, 0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: Versions(0, 0, 0),
    ApiKey.LIST_TRANSACTIONS: Versions(0, 2, 0),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Versions(0, 1, 0),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Versions(0, 1, 0),
    ApiKey.LIST_CONFIG_RESOURCES: Versions(0, 1, 0),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Versions(0, 0, 0),
    ApiKey.SHARE_GROUP_HEARTBEAT: Versions(1, 1, 1),
    ApiKey.SHARE_GROUP_DESCRIBE: Versions(1, 1, 1),
    ApiKey.SHARE_FETCH: Versions(1, 2, 1),
    ApiKey.SHARE_ACKNOWLEDGE: Versions(1, 2, 1),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Versions(0, 1, 0),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Versions(0, 0, 0),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Versions(0, 0, 0),
}


def versions_of(api_key: int) -> Versions | None:
    """The versions we can read and write of an API; None for one we don't know."""
    return VERSIONS.get(api_key)  # type: ignore[call-overload,no-any-return]  # an IntEnum is an int


def advertised_versions(api_key: ApiKey) -> Versions:
    """What to say in ApiVersions: `VERSIONS`, with two exceptions, which are Apache Kafka's.

    Produce from 0: many librdkafkas take a missing Produce v0 for a broker that cannot compress,
    and send batches uncompressed.  They use the newest version that both know all the same; a
    request that really is older than version 3 is refused like any other.

    InitProducerId up to 5: version 6 is that of two-phase commit, which is not there.  A client
    that wants it says so itself, instead of being told that it may not.
    """
    versions = VERSIONS[api_key]
    match api_key:
        case ApiKey.PRODUCE:
            return versions._replace(min=0)
        case ApiKey.INIT_PRODUCER_ID:
            return versions._replace(max=5)
        case _:
            return versions


def is_flexible(api_key: int, version: int) -> bool:
    """Whether this version has compact lengths and tagged fields; False for an unknown API."""
    versions = versions_of(api_key)
    return versions is not None and version >= versions.flexible_from


def has_flexible_response_header(api_key: int, version: int) -> bool:
    """Whether the response's header ends in tagged fields.

    Never for ApiVersions: a client that asks does not yet know what the broker can speak, and must
    be able to read the refusal.
    """
    return api_key != ApiKey.API_VERSIONS and is_flexible(api_key, version)
