"""What to do about a refusal: a line under the error, where the job's owner sees it."""

import contextlib
from collections.abc import Iterator
from typing import Final

from goqueue.client.errors import Refused, ServerUnreachable
from goqueue.client.kafka import ErrorCode, KafkaRefused
from goqueue.model.errors import BatchTooLarge

ENDED: Final = frozenset(
    {
        ErrorCode.invalid_producer_epoch,
        ErrorCode.invalid_producer_id_mapping,
        ErrorCode.invalid_txn_state,
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.producer_fenced,
        ErrorCode.transaction_abortable,
        ErrorCode.transactional_id_not_found,
    }
)
ENDED_HINT: Final = (
    "The broker has ended this attempt: it took longer than the option txnTimeout (15m unless set),"
    " or a newer run of the same job has started."
)
REFUSED_HINTS: Final = {
    "application_fenced": (
        "Another driver has started with the same checkpoint or txnAppId: only one may write."
    ),
    "version_differs": (
        "Nothing was written, and nothing is lost. This batch's number was written before, with"
        " other rows: the newest files of the checkpoint are gone (it was restored, copied, or lost"
        " them with the power). To go on without a gap: a new checkpoint, and as startingOffsets"
        " those with which it was decided."
    ),
    "version_goes_back": (
        "Nothing was written. If another driver runs with the same checkpoint, it is ahead: stop"
        " one of them, and start the other again. If the checkpoint was restored or deleted, its"
        " batches are counted from an older number again: a stream needs a new checkpoint then,"
        " and foreachBatch another txnAppId; both write everything once more."
    ),
    "invalid_transaction_state": ENDED_HINT,
}


@contextlib.contextmanager
def add_hints() -> Iterator[None]:
    """Errors leave with what to do about them."""
    try:
        yield
    except Exception as error:
        hint = hint_for(error)
        if hint:
            error.add_note(hint)
        raise


def hint_for(error: Exception) -> str | None:
    match error:
        case BatchTooLarge():
            return "Raise the option kafka.max.request.size, and the topic's max.message.bytes."
        case KafkaRefused(code=ErrorCode.message_too_large):
            return (
                "Raise the topic's max.message.bytes. A message goes as a batch of its own where it"
                " must; batches of several messages are as large as the option batchBytes."
            )
        case KafkaRefused(code=ErrorCode.unknown_topic_or_partition):
            return "Create it first (goqueue topic create), or let the broker: topics.auto_create."
        case KafkaRefused(code=code) if code in ENDED:
            return ENDED_HINT
        case ServerUnreachable() if "http:" in str(error):
            return (
                "The driver and its tasks decide over HTTP, at the address that the broker tells:"
                " set http.advertised on the server, or the option goqueue.http."
            )
        case Refused(code=code):
            return REFUSED_HINTS.get(code)
        case _:
            return None
