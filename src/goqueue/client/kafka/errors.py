"""What a broker refuses, in the protocol's own words, and which refusals are worth another try."""

from typing import Final

from kio.schema.errors import ErrorCode

from goqueue.client.errors import ClientError, NoAnswer, ServerUnreachable

# Elsewhere, not yet, or not now: the same request may be answered a moment later.  A topic that is
# unknown is not among them: nothing here creates one behind the caller's back.
RETRIABLE: Final = frozenset(
    {
        ErrorCode.leader_not_available,
        ErrorCode.not_leader_or_follower,
        ErrorCode.request_timed_out,
        ErrorCode.replica_not_available,
        ErrorCode.network_exception,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.not_controller,
        ErrorCode.concurrent_transactions,
        ErrorCode.kafka_storage_error,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.offset_not_available,
        ErrorCode.throttling_quota_exceeded,
        ErrorCode.unstable_offset_commit,
    }
)


class KafkaRefused(ClientError):
    """The broker answered, and said no; `code` is the protocol's word for it."""

    def __init__(self, doing: str, code: ErrorCode, message: str | None = None) -> None:
        said = f": {message}" if message else ""
        super().__init__(f"{doing}: {code.name} ({code.value}){said}")
        self.code = code

    @property
    def is_retriable(self) -> bool:
        return self.code in RETRIABLE


def is_retriable(error: ClientError, *, repeats_unanswered: bool) -> bool:
    """Whether to ask again.  `repeats_unanswered`: asking twice does the same as asking once."""
    match error:
        case KafkaRefused():
            return error.is_retriable
        case ServerUnreachable():
            return True
        case NoAnswer():
            return repeats_unanswered
        case _:
            return False


def check_code(code: ErrorCode, doing: str, message: str | None = None) -> None:
    """Raises `KafkaRefused` unless all is well."""
    if code is not ErrorCode.none:
        raise KafkaRefused(doing, code, message)
