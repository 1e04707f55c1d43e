"""What can go wrong, in the words of the domain.

Two kinds live here: the caller's mistake and the world's failure.  Our own bugs are `assert`s.
Every listener has one table from these classes to its own codes, and a test that it is complete.
A message says what was wrong, with numbers, and what to do about it.
"""

from collections.abc import Mapping
from typing import ClassVar


class GoQueueError(Exception):
    """Something a caller can be told about."""

    code: ClassVar[str] = "internal"  # the word that HTTP clients and scripts match on
    retriable: ClassVar[bool] = False


# --- the caller's mistake ---------------------------------------------------------------------


class InvalidRequest(GoQueueError):
    """The request makes no sense, whatever the state of the broker."""

    code = "invalid_request"


class InvalidName(InvalidRequest):
    code = "invalid_name"


class InvalidPartitions(InvalidRequest):
    code = "invalid_partitions"


class InvalidReplication(InvalidRequest):
    code = "invalid_replication_factor"


class InvalidReplicaAssignment(InvalidRequest):
    """Replicas on nodes that are not there, or not one list for each partition."""

    code = "invalid_replica_assignment"


class InvalidSetting(InvalidRequest):
    """A topic or server setting has an unknown name or a value outside its range."""

    code = "invalid_setting"


class UnsupportedVersion(InvalidRequest):
    code = "unsupported_version"


class TopicNotFound(GoQueueError):
    code = "topic_not_found"


class TopicIdNotFound(TopicNotFound):
    code = "topic_id_not_found"


class PartitionNotFound(TopicNotFound):
    code = "partition_not_found"


class TopicExists(GoQueueError):
    code = "topic_exists"


class UserNotFound(GoQueueError):
    code = "user_not_found"


class ApiKeyNotFound(GoQueueError):
    code = "api_key_not_found"


class TenantNotFound(GoQueueError):
    code = "tenant_not_found"


class TenantExists(GoQueueError):
    code = "tenant_exists"


class TenantInUse(GoQueueError):
    code = "tenant_in_use"


class TenantRefused(GoQueueError):
    """It is suspended, disabled or gone: nobody of it comes in."""

    code = "tenant_refused"


class PolicyViolation(GoQueueError):
    """Well-formed, but this broker's limits or switches say no."""

    code = "policy_violation"


class TenantLimitReached(PolicyViolation):
    """A tenant has as much as it may have."""

    code = "tenant_limit_reached"

    def __init__(self, quota: str, message: str) -> None:
        super().__init__(f"the tenant's limit {quota} is reached: {message}")
        self.quota = quota


class OffsetOutOfRange(GoQueueError):
    """The offset asked for is before the log's start or after its end."""

    code = "offset_out_of_range"


class CorruptBatch(GoQueueError):
    """Bytes that claim to be a record batch and are not, or whose checksum is wrong."""

    code = "corrupt_batch"


class UnsupportedBatch(GoQueueError):
    """A record format this broker does not keep: magic 0 or 1, or an unknown codec."""

    code = "unsupported_batch"


class InvalidRecord(GoQueueError):
    """A sound batch that this topic's settings refuse (no key in a compacted topic, say)."""

    code = "invalid_record"


class InvalidRecords(InvalidRecord):
    """Some records of a batch break a rule of the topic, and the whole batch is refused for it."""

    def __init__(self, rule: str, indexes: list[int]) -> None:
        super().__init__(f"{rule} (record {indexes[0]} of the batch breaks it)")
        self.rule = rule
        self.indexes = indexes  # where these records are in the batch; the first ones if many


class InvalidTimestamp(InvalidRecord):
    code = "invalid_timestamp"


class BatchTooLarge(GoQueueError):
    code = "message_too_large"


class InvalidProducerEpoch(GoQueueError):
    """A newer producer with the same id has taken over: this one must stop."""

    code = "producer_fenced"


class OutOfOrderSequence(GoQueueError):
    """Batches of an idempotent producer are missing before this one."""

    code = "out_of_order_sequence"


class TransactionCoordinatorFenced(GoQueueError):
    code = "transaction_coordinator_fenced"


class Unauthorized(GoQueueError):
    code = "unauthorized"


class AuthenticationFailed(GoQueueError):
    """Nobody is known by what was shown."""

    code = "authentication_failed"

    def __init__(self, message: str = "", user: str = "") -> None:
        """`user` is whom the client claimed to be."""
        super().__init__(message)
        self.user = user


class LoginThrottled(AuthenticationFailed):
    """Too many logins failed: the next one is looked at after a while, and not before."""

    code = "too_many_failed_logins"
    retriable = True


class AccessDenied(GoQueueError):
    """It is known who asks, and that is not allowed."""

    code = "access_denied"


class TopicAccessDenied(AccessDenied):
    """The caller lacks the permission on a topic, whether the topic exists or not."""

    code = "topic_access_denied"


class GroupAccessDenied(AccessDenied):
    """The caller lacks the permission on a group."""

    code = "group_access_denied"


class TransactionalIdAccessDenied(AccessDenied):
    """The caller lacks the permission on a transactional id."""

    code = "transactional_id_access_denied"


# --- the world's failure ----------------------------------------------------------------------


class DiskFull(GoQueueError):
    """No room to write.  Nothing was written; the same request may succeed once there is room."""

    code = "disk_full"
    retriable = True


class OutOfHandles(DiskFull):
    """Too many open files.  As with a full disk nothing was written, and later it may succeed."""

    code = "too_many_open_files"


class StorageFailed(GoQueueError):
    """The disk refused a write or a flush; the partition accepts no more until it is reopened."""

    code = "storage_failed"


class CorruptData(GoQueueError):
    """Stored bytes fail their checksum.  They are never served; what lies around them is."""

    code = "corrupt_data"


class DataDirectoryInUse(GoQueueError):
    code = "data_directory_in_use"


class WrongDataDirectory(GoQueueError):
    """The data directory belongs to another node or cluster, or is an old copy."""

    code = "wrong_data_directory"


class WrongCluster(GoQueueError):
    """The other node belongs to another cluster."""

    code = "wrong_cluster"


class DuplicateNodeId(GoQueueError):
    """Two nodes have the same number."""

    code = "duplicate_node_id"


class NodeUnreachable(GoQueueError):
    """Another node, whose word was needed, could not be reached.  It was asked nothing."""

    code = "node_unreachable"
    retriable = True


class PartitionsMissing(GoQueueError):
    """Done for some partitions; `missing` says which refused, and why.  It may be repeated."""

    code = "partitions_missing"
    retriable = True

    def __init__(
        self, text: str, missing: Mapping[int, GoQueueError] | None = None, done: int = 0
    ) -> None:
        self.missing = dict(missing or {})
        self.done = done
        reasons = "; ".join(f"partition {index}: {why}" for index, why in self.missing.items())
        super().__init__(f"{text}: {reasons}" if reasons else text)


class NotLeader(GoQueueError):
    """This node does not lead the partition; `leader` is the node and epoch that do, if known."""

    code = "not_leader"
    retriable = True

    def __init__(self, text: str, leader: tuple[int, int] | None = None) -> None:
        super().__init__(text)
        self.leader = leader


class NotCoordinator(GoQueueError):
    """Another node coordinates the groups, or will in a moment: look for it and retry."""

    code = "not_coordinator"
    retriable = True


class LeadershipLost(NotLeader):
    """Written here, and another node leads since.  It may have been committed or not."""

    code = "leadership_lost"


class Fenced(GoQueueError):
    """Another node took a newer term of the metadata.  Nothing was written, and none will be."""

    code = "not_controller"
    retriable = True


class Uncertain(GoQueueError):
    """The quorum did not answer in time.  The change may have been made, or be made later."""

    code = "outcome_unknown"


class QuorumUnavailable(GoQueueError):
    """No majority of the quorum could be asked.  Nothing was changed."""

    code = "quorum_unavailable"
    retriable = True


class NotEnoughReplicas(GoQueueError):
    """Too few replicas are in sync to make a write safe.  Nothing was written."""

    code = "not_enough_replicas"
    retriable = True


class OffsetNotAvailable(GoQueueError):
    """This node began to lead just now, and does not know yet how much is committed."""

    code = "offset_not_available"
    retriable = True


class FencedLeaderEpoch(GoQueueError):
    """The caller's leader epoch is older than this broker's: refresh metadata and retry."""

    code = "fenced_leader_epoch"
    retriable = True


class UnknownLeaderEpoch(GoQueueError):
    """The caller's leader epoch is newer than this broker's: it will catch up shortly."""

    code = "unknown_leader_epoch"
    retriable = True


class TimedOut(GoQueueError):
    """Written, and not committed in time: a disk is slow.  It may still be."""

    code = "timed_out"
    retriable = True


class NotEnoughReplicasAfterAppend(TimedOut):
    """Written, and not committed in time: too few replicas are in sync.  It may still be."""

    code = "not_enough_replicas_after_append"


class ShuttingDown(GoQueueError):
    code = "shutting_down"
    retriable = True


class QuotaExceeded(GoQueueError):
    """The client, or its tenant, has used what it may use for now."""

    code = "quota_exceeded"
    retriable = True

    def __init__(self, quota: str, retry_after_seconds: float, whose: str = "client") -> None:
        super().__init__(
            f"the {whose} is over its quota {quota}: try again in {retry_after_seconds:.1f} s"
        )
        self.quota = quota
        self.retry_after_seconds = retry_after_seconds


class Overloaded(GoQueueError):
    """A named bound was reached; the message names the setting."""

    code = "overloaded"
    retriable = True
