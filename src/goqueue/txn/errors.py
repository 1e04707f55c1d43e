"""Why a transaction's request is refused."""

from goqueue.model.errors import GoQueueError


class TransactionError(GoQueueError):
    """The base of all refusals here; never raised itself."""

    code = "transaction_error"


class ProducerFenced(TransactionError):
    """A newer producer with this transactional id has started: this one must stop."""

    code = "producer_fenced"


class UnknownProducer(TransactionError):
    """The producer id does not belong to the transactional id."""

    code = "unknown_producer"


class InvalidTransactionState(TransactionError):
    """The transaction cannot do that now: commit before it began, say."""

    code = "invalid_transaction_state"


class ConcurrentTransactions(TransactionError):
    """The transaction before this one is still being ended: ask again shortly."""

    code = "concurrent_transactions"
    retriable = True


class InvalidTransactionTimeout(TransactionError):
    code = "invalid_transaction_timeout"


class TransactionalIdNotFound(TransactionError):
    code = "transactional_id_not_found"


class ApplicationFenced(TransactionError):
    """A newer run of the same application has started: this one must stop."""

    code = "application_fenced"


class VersionDiffers(TransactionError):
    """An application repeats a version that was decided, with other contents than it had then."""

    code = "version_differs"


class VersionGoesBack(TransactionError):
    """An application's version is older than the one before the last decided."""

    code = "version_goes_back"
