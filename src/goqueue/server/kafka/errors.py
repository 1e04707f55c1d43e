"""What Kafka clients are told: one code for each of our errors, checked to be complete by a test."""

from kio.schema.errors import ErrorCode

from goqueue.model import errors
from goqueue.model.errors import GoQueueError
from goqueue.wire.errors import MalformedRequest

KAFKA_CODE: dict[type[GoQueueError], ErrorCode] = {
    errors.InvalidRequest: ErrorCode.invalid_request,
    MalformedRequest: ErrorCode.invalid_request,
    errors.InvalidName: ErrorCode.invalid_topic_exception,
    errors.InvalidPartitions: ErrorCode.invalid_partitions,
    errors.InvalidReplication: ErrorCode.invalid_replication_factor,
    errors.InvalidSetting: ErrorCode.invalid_config,
    errors.UnsupportedVersion: ErrorCode.unsupported_version,
    errors.TopicNotFound: ErrorCode.unknown_topic_or_partition,
    errors.TopicIdNotFound: ErrorCode.unknown_topic_id,
    errors.PartitionNotFound: ErrorCode.unknown_topic_or_partition,
    errors.TopicExists: ErrorCode.topic_already_exists,
    errors.PolicyViolation: ErrorCode.policy_violation,
    errors.OffsetOutOfRange: ErrorCode.offset_out_of_range,
    errors.CorruptBatch: ErrorCode.corrupt_message,
    errors.UnsupportedBatch: ErrorCode.unsupported_for_message_format,
    errors.InvalidRecord: ErrorCode.invalid_record,
    errors.InvalidTimestamp: ErrorCode.invalid_timestamp,
    errors.BatchTooLarge: ErrorCode.message_too_large,
    errors.InvalidProducerEpoch: ErrorCode.invalid_producer_epoch,
    errors.OutOfOrderSequence: ErrorCode.out_of_order_sequence_number,
    errors.TransactionCoordinatorFenced: ErrorCode.transaction_coordinator_fenced,
    errors.Unauthorized: ErrorCode.cluster_authorization_failed,
    # Retriable for producers, so that they go on by themselves once there is room.
    errors.DiskFull: ErrorCode.kafka_storage_error,
    errors.StorageFailed: ErrorCode.kafka_storage_error,
    errors.CorruptData: ErrorCode.corrupt_message,
    errors.DataDirectoryInUse: ErrorCode.kafka_storage_error,
    errors.NotLeader: ErrorCode.not_leader_or_follower,
    errors.FencedLeaderEpoch: ErrorCode.fenced_leader_epoch,
    errors.UnknownLeaderEpoch: ErrorCode.unknown_leader_epoch,
    errors.TimedOut: ErrorCode.request_timed_out,
    errors.ShuttingDown: ErrorCode.not_leader_or_follower,
    errors.Overloaded: ErrorCode.throttling_quota_exceeded,
}


def kafka_code(error: GoQueueError) -> ErrorCode:
    return KAFKA_CODE[type(error)]
