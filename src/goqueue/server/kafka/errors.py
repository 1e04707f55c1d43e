"""Errors to Kafka clients: one code for each of our errors; a test checks that none is missing."""

from kio.schema.errors import ErrorCode

from goqueue.broker.messages import idempotency
from goqueue.broker.shares import sessions
from goqueue.cluster import errors as cluster_errors
from goqueue.delay import errors as delay_errors
from goqueue.groups import errors as group_errors
from goqueue.model import errors
from goqueue.model.errors import GoQueueError
from goqueue.queue import errors as queue_errors
from goqueue.trace import errors as trace_errors
from goqueue.txn import errors as txn_errors
from goqueue.wire.errors import MalformedRequest
from goqueue.wire.nodes import LeaderAndEpoch

KAFKA_CODE: dict[type[GoQueueError], ErrorCode] = {
    errors.InvalidRequest: ErrorCode.invalid_request,
    MalformedRequest: ErrorCode.invalid_request,
    errors.InvalidName: ErrorCode.invalid_topic_exception,
    errors.InvalidPartitions: ErrorCode.invalid_partitions,
    errors.InvalidReplication: ErrorCode.invalid_replication_factor,
    errors.InvalidReplicaAssignment: ErrorCode.invalid_replica_assignment,
    errors.InvalidSetting: ErrorCode.invalid_config,
    errors.UnsupportedVersion: ErrorCode.unsupported_version,
    errors.TopicNotFound: ErrorCode.unknown_topic_or_partition,
    errors.TopicIdNotFound: ErrorCode.unknown_topic_id,
    errors.PartitionNotFound: ErrorCode.unknown_topic_or_partition,
    errors.TopicExists: ErrorCode.topic_already_exists,
    errors.PolicyViolation: ErrorCode.policy_violation,
    errors.TenantNotFound: ErrorCode.resource_not_found,
    errors.TenantExists: ErrorCode.duplicate_resource,
    errors.TenantInUse: ErrorCode.invalid_request,
    errors.TenantRefused: ErrorCode.sasl_authentication_failed,
    errors.OffsetOutOfRange: ErrorCode.offset_out_of_range,
    errors.CorruptBatch: ErrorCode.corrupt_message,
    errors.UnsupportedBatch: ErrorCode.unsupported_for_message_format,
    errors.InvalidRecord: ErrorCode.invalid_record,
    errors.InvalidTimestamp: ErrorCode.invalid_timestamp,
    errors.BatchTooLarge: ErrorCode.message_too_large,
    errors.InvalidProducerEpoch: ErrorCode.invalid_producer_epoch,
    errors.OutOfOrderSequence: ErrorCode.out_of_order_sequence_number,
    errors.TransactionCoordinatorFenced: ErrorCode.transaction_coordinator_fenced,
    txn_errors.TransactionError: ErrorCode.unknown_server_error,
    txn_errors.ProducerFenced: ErrorCode.producer_fenced,
    txn_errors.UnknownProducer: ErrorCode.invalid_producer_id_mapping,
    txn_errors.InvalidTransactionState: ErrorCode.invalid_txn_state,
    txn_errors.ConcurrentTransactions: ErrorCode.concurrent_transactions,
    txn_errors.InvalidTransactionTimeout: ErrorCode.invalid_transaction_timeout,
    txn_errors.TransactionalIdNotFound: ErrorCode.transactional_id_not_found,
    txn_errors.ApplicationFenced: ErrorCode.producer_fenced,
    txn_errors.VersionDiffers: ErrorCode.invalid_request,
    txn_errors.VersionGoesBack: ErrorCode.invalid_request,
    errors.Unauthorized: ErrorCode.cluster_authorization_failed,
    errors.AuthenticationFailed: ErrorCode.sasl_authentication_failed,
    errors.LoginThrottled: ErrorCode.sasl_authentication_failed,
    errors.AccessDenied: ErrorCode.cluster_authorization_failed,
    errors.TopicAccessDenied: ErrorCode.topic_authorization_failed,
    errors.GroupAccessDenied: ErrorCode.group_authorization_failed,
    errors.TransactionalIdAccessDenied: ErrorCode.transactional_id_authorization_failed,
    errors.UserNotFound: ErrorCode.resource_not_found,
    errors.ApiKeyNotFound: ErrorCode.resource_not_found,
    # Retriable for producers, so that they go on by themselves once there is room.
    errors.DiskFull: ErrorCode.kafka_storage_error,
    errors.OutOfHandles: ErrorCode.kafka_storage_error,
    errors.StorageFailed: ErrorCode.kafka_storage_error,
    errors.CorruptData: ErrorCode.corrupt_message,
    errors.DataDirectoryInUse: ErrorCode.kafka_storage_error,
    errors.WrongDataDirectory: ErrorCode.kafka_storage_error,
    errors.WrongCluster: ErrorCode.inconsistent_cluster_id,
    errors.DuplicateNodeId: ErrorCode.duplicate_broker_registration,
    errors.NodeUnreachable: ErrorCode.request_timed_out,
    errors.PartitionsMissing: ErrorCode.request_timed_out,
    errors.NotLeader: ErrorCode.not_leader_or_follower,
    errors.NotCoordinator: ErrorCode.not_coordinator,
    errors.LeadershipLost: ErrorCode.not_leader_or_follower,
    errors.Fenced: ErrorCode.not_controller,
    errors.Uncertain: ErrorCode.request_timed_out,
    errors.QuorumUnavailable: ErrorCode.request_timed_out,
    errors.NotEnoughReplicas: ErrorCode.not_enough_replicas,
    errors.OffsetNotAvailable: ErrorCode.offset_not_available,
    errors.FencedLeaderEpoch: ErrorCode.fenced_leader_epoch,
    errors.UnknownLeaderEpoch: ErrorCode.unknown_leader_epoch,
    errors.TimedOut: ErrorCode.request_timed_out,
    errors.NotEnoughReplicasAfterAppend: ErrorCode.not_enough_replicas_after_append,
    errors.ShuttingDown: ErrorCode.not_leader_or_follower,
    errors.Overloaded: ErrorCode.throttling_quota_exceeded,
    errors.QuotaExceeded: ErrorCode.throttling_quota_exceeded,
    cluster_errors.NodeNotFound: ErrorCode.broker_id_not_registered,
    cluster_errors.StaleNodeEpoch: ErrorCode.stale_broker_epoch,
    cluster_errors.StalePartitionEpoch: ErrorCode.invalid_update_version,
    cluster_errors.IneligibleReplica: ErrorCode.ineligible_replica,
    cluster_errors.NodeInUse: ErrorCode.invalid_request,
    cluster_errors.ElectionNotNeeded: ErrorCode.election_not_needed,
    cluster_errors.LeaderNotAvailable: ErrorCode.leader_not_available,
    cluster_errors.NoReassignment: ErrorCode.no_reassignment_in_progress,
    cluster_errors.FeatureRefused: ErrorCode.feature_update_failed,
    group_errors.InvalidGroupRequest: ErrorCode.invalid_request,
    group_errors.InvalidGroupId: ErrorCode.invalid_group_id,
    group_errors.GroupNotFound: ErrorCode.group_id_not_found,
    group_errors.GroupNotEmpty: ErrorCode.non_empty_group,
    group_errors.GroupSubscribedToTopic: ErrorCode.group_subscribed_to_topic,
    group_errors.GroupMaxSizeReached: ErrorCode.group_max_size_reached,
    group_errors.UnknownMember: ErrorCode.unknown_member_id,
    group_errors.MemberIdRequired: ErrorCode.member_id_required,
    group_errors.IllegalGeneration: ErrorCode.illegal_generation,
    group_errors.RebalanceInProgress: ErrorCode.rebalance_in_progress,
    group_errors.InconsistentGroupProtocol: ErrorCode.inconsistent_group_protocol,
    group_errors.GroupModeConflict: ErrorCode.inconsistent_group_protocol,
    group_errors.InvalidSessionTimeout: ErrorCode.invalid_session_timeout,
    group_errors.FencedInstance: ErrorCode.fenced_instance_id,
    group_errors.UnreleasedInstance: ErrorCode.unreleased_instance_id,
    group_errors.FencedMemberEpoch: ErrorCode.fenced_member_epoch,
    group_errors.StaleMemberEpoch: ErrorCode.stale_member_epoch,
    group_errors.UnsupportedAssignor: ErrorCode.unsupported_assignor,
    group_errors.InvalidRegularExpression: ErrorCode.invalid_regular_expression,
    group_errors.OffsetMetadataTooLarge: ErrorCode.offset_metadata_too_large,
    delay_errors.DelayError: ErrorCode.invalid_request,
    trace_errors.TraceError: ErrorCode.invalid_request,
    queue_errors.QueueError: ErrorCode.invalid_request,
    queue_errors.ReceiptExpired: ErrorCode.invalid_record_state,
    queue_errors.ReceiptInTransaction: ErrorCode.invalid_record_state,
    queue_errors.InvalidQueueSetting: ErrorCode.invalid_config,
    queue_errors.QueueGroupNotFound: ErrorCode.group_id_not_found,
    idempotency.IdempotencyKeyReused: ErrorCode.invalid_request,  # of HTTP; no Kafka client sees it
    sessions.ShareSessionNotFound: ErrorCode.share_session_not_found,
    sessions.InvalidShareSessionEpoch: ErrorCode.invalid_share_session_epoch,
}

# Failures of this broker, in the words that a group's client understands: find the coordinator
# again, and go on.
COORDINATOR_CODE: dict[type[GoQueueError], ErrorCode] = {
    errors.DiskFull: ErrorCode.coordinator_not_available,
    errors.OutOfHandles: ErrorCode.coordinator_not_available,
    errors.StorageFailed: ErrorCode.coordinator_not_available,
    errors.NotEnoughReplicas: ErrorCode.coordinator_not_available,
    errors.TimedOut: ErrorCode.coordinator_not_available,
    errors.NotEnoughReplicasAfterAppend: ErrorCode.coordinator_not_available,
    errors.ShuttingDown: ErrorCode.coordinator_not_available,
    errors.NotLeader: ErrorCode.not_coordinator,
    errors.LeadershipLost: ErrorCode.not_coordinator,
}


def kafka_code(error: GoQueueError) -> ErrorCode:
    """Its own code, or that of the error it is a kind of."""
    return next(KAFKA_CODE[kind] for kind in type(error).__mro__ if kind in KAFKA_CODE)


def leader_of(error: GoQueueError) -> LeaderAndEpoch | None:
    """The leader that the error names, if it does; see `leaders.py`."""
    if not isinstance(error, errors.NotLeader) or error.leader is None:
        return None
    return LeaderAndEpoch(*error.leader)


def coordinator_code(error: GoQueueError) -> ErrorCode:
    """As `kafka_code`, in an answer of a group's coordinator."""
    return COORDINATOR_CODE.get(type(error)) or kafka_code(error)
