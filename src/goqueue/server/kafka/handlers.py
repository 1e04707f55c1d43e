"""The table of APIs that go through `wire.messages`: a handler each, a file for each family.

A handler gets the request in its newest shape, whatever version the client speaks, and gives the
response in its newest shape.
"""

from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any

from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.api_versions.v4.response import ApiVersionsResponse

from goqueue.server.kafka import (
    acls,
    classic_groups,
    client_quotas,
    configs,
    consumer_groups,
    elections,
    features,
    find_coordinator,
    group_admin,
    group_offsets,
    log_dirs,
    metadata,
    offsets,
    producers,
    quorum,
    reassignments,
    scram_users,
    share_fetch,
    share_groups,
    share_offsets,
    topics,
    transaction_admin,
    transactions,
)
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.versions import describe_api_versions
from goqueue.wire.apis import ApiKey

Handler = Callable[[Context, Any], Awaitable[Any]]


async def handle_api_versions(context: Context, request: ApiVersionsRequest) -> ApiVersionsResponse:
    return _api_versions(*context.broker.metadata.features.items())


@lru_cache(maxsize=4)
def _api_versions(*finalized: tuple[str, int]) -> ApiVersionsResponse:
    return describe_api_versions(SERVED_APIS, dict(finalized))


HANDLERS: dict[ApiKey, Handler] = {
    ApiKey.API_VERSIONS: handle_api_versions,
    ApiKey.METADATA: metadata.handle_metadata,
    ApiKey.DESCRIBE_CLUSTER: metadata.handle_describe_cluster,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: metadata.handle_describe_topic_partitions,
    ApiKey.LIST_OFFSETS: offsets.handle_list_offsets,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offsets.handle_offset_for_leader_epoch,
    ApiKey.DELETE_RECORDS: offsets.handle_delete_records,
    ApiKey.CREATE_TOPICS: topics.handle_create_topics,
    ApiKey.DELETE_TOPICS: topics.handle_delete_topics,
    ApiKey.CREATE_PARTITIONS: topics.handle_create_partitions,
    ApiKey.DESCRIBE_LOG_DIRS: log_dirs.handle_describe_log_dirs,
    ApiKey.ALTER_REPLICA_LOG_DIRS: log_dirs.handle_alter_replica_log_dirs,
    ApiKey.DESCRIBE_CONFIGS: configs.handle_describe_configs,
    ApiKey.ALTER_CONFIGS: configs.handle_alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: configs.handle_incremental_alter_configs,
    ApiKey.LIST_CONFIG_RESOURCES: configs.handle_list_config_resources,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: reassignments.handle_list_partition_reassignments,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: reassignments.handle_alter_partition_reassignments,
    ApiKey.ELECT_LEADERS: elections.handle_elect_leaders,
    ApiKey.DESCRIBE_QUORUM: quorum.handle_describe_quorum,
    ApiKey.UPDATE_FEATURES: features.handle_update_features,
    ApiKey.DESCRIBE_ACLS: acls.handle_describe_acls,
    ApiKey.CREATE_ACLS: acls.handle_create_acls,
    ApiKey.DELETE_ACLS: acls.handle_delete_acls,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: client_quotas.handle_describe_client_quotas,
    ApiKey.ALTER_CLIENT_QUOTAS: client_quotas.handle_alter_client_quotas,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: scram_users.handle_describe_user_scram_credentials,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: scram_users.handle_alter_user_scram_credentials,
    ApiKey.FIND_COORDINATOR: find_coordinator.handle_find_coordinator,
    ApiKey.JOIN_GROUP: classic_groups.handle_join_group,
    ApiKey.SYNC_GROUP: classic_groups.handle_sync_group,
    ApiKey.HEARTBEAT: classic_groups.handle_heartbeat,
    ApiKey.LEAVE_GROUP: classic_groups.handle_leave_group,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_groups.handle_consumer_group_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: consumer_groups.handle_consumer_group_describe,
    ApiKey.SHARE_GROUP_HEARTBEAT: share_groups.handle_share_group_heartbeat,
    ApiKey.SHARE_GROUP_DESCRIBE: share_groups.handle_share_group_describe,
    ApiKey.SHARE_FETCH: share_fetch.handle_share_fetch,
    ApiKey.SHARE_ACKNOWLEDGE: share_fetch.handle_share_acknowledge,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: share_offsets.handle_describe_share_group_offsets,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: share_offsets.handle_alter_share_group_offsets,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: share_offsets.handle_delete_share_group_offsets,
    ApiKey.OFFSET_COMMIT: group_offsets.handle_offset_commit,
    ApiKey.OFFSET_FETCH: group_offsets.handle_offset_fetch,
    ApiKey.OFFSET_DELETE: group_offsets.handle_offset_delete,
    ApiKey.LIST_GROUPS: group_admin.handle_list_groups,
    ApiKey.DESCRIBE_GROUPS: group_admin.handle_describe_groups,
    ApiKey.DELETE_GROUPS: group_admin.handle_delete_groups,
    ApiKey.INIT_PRODUCER_ID: producers.handle_init_producer_id,
    ApiKey.ADD_PARTITIONS_TO_TXN: transactions.handle_add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: transactions.handle_add_offsets_to_txn,
    ApiKey.TXN_OFFSET_COMMIT: transactions.handle_txn_offset_commit,
    ApiKey.END_TXN: transactions.handle_end_txn,
    ApiKey.WRITE_TXN_MARKERS: transaction_admin.handle_write_txn_markers,
    ApiKey.DESCRIBE_TRANSACTIONS: transaction_admin.handle_describe_transactions,
    ApiKey.LIST_TRANSACTIONS: transaction_admin.handle_list_transactions,
    ApiKey.DESCRIBE_PRODUCERS: transaction_admin.handle_describe_producers,
}

# Produce and Fetch have decoders of their own, and logins are the connection's: they are not in the
# table.
SERVED_APIS = sorted(
    {
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        *HANDLERS,
    }
)
