"""Why a queue's request is refused."""

from goqueue.model.errors import GoQueueError


class QueueError(GoQueueError):
    """The base of all refusals here; never raised itself."""

    code = "queue_error"


class ReceiptMalformed(QueueError):
    """The text is not a receipt."""

    code = "receipt_malformed"


class ReceiptUnknown(QueueError):
    """No such delivery was ever made."""

    code = "receipt_unknown"


class ReceiptExpired(QueueError):
    """The delivery has ended: it timed out, or the message was settled."""

    code = "receipt_expired"


class ReceiptInTransaction(QueueError):
    """The delivery is part of a transaction, whose end decides about it."""

    code = "receipt_in_transaction"


class TooManyInFlight(QueueError):
    """The consumer or its group holds as many messages as it may; ack some first."""

    code = "too_many_in_flight"
    retriable = True


class InvalidQueueSetting(QueueError):
    code = "invalid_queue_setting"


class QueueGroupNotFound(QueueError):
    code = "queue_group_not_found"


class DeadLetterNotFound(QueueError):
    code = "dead_letter_not_found"


class RedriveNotFound(QueueError):
    """None was started by that id, or it was long ago, or before a restart."""

    code = "redrive_not_found"
