"""What can go wrong between a client and a server.

A refusal carries what the server said: its code word, text, details and HTTP status.  That a
request was lost on the way is a class of its own, because a publish may have been done all the
same.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from goqueue.api.messages import PublishResult


class ClientError(Exception):
    """Something that a program using the client can be told about."""


# --- no answer ------------------------------------------------------------------------------------


class ServerUnreachable(ClientError):
    """Nothing was sent: no server is there, or it could not be reached in time."""


class NoFreeConnection(ServerUnreachable):
    """Nothing was sent: the client itself had too many calls under way."""


class BadLogin(ClientError):
    """Nothing was sent: what the client was given to log in with cannot be used, or the server's
    certificate is not trusted."""


class NoAnswer(ClientError):
    """The request was sent and no whole answer came.  It may or may not have been carried out."""


class BadAnswer(ClientError):
    """An answer came that is not GoQueue's: another program, or a proxy, is at this address."""


# --- a refusal ------------------------------------------------------------------------------------


class Refused(ClientError):
    """The server answered, and said no."""

    def __init__(
        self,
        message: str,
        *,
        code: str,
        status: int,
        details: Mapping[str, Any] | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.status = status
        self.details = details or {}
        self.retry_after_seconds = retry_after_seconds


class BadRequest(Refused):
    """The request makes no sense, whatever the server holds."""


class Unauthorized(Refused):
    """Nobody is known by what the client showed: give it an API key, or a user and its password."""


class Forbidden(Refused):
    """The user is known, and may not do this: an administrator can allow it (roles, ACLs)."""


class NotFound(Refused): ...


class TopicNotFound(NotFound): ...


class PartitionNotFound(NotFound): ...


class Conflict(Refused): ...


class TopicExists(Conflict): ...


class ReceiptExpired(Conflict):
    """The delivery is over: its visibility time-out ended, or it was settled otherwise."""


class ReceiptInTransaction(Conflict):
    """A transaction acks the message: its end decides."""


class ReceiptUnknown(NotFound):
    """No such delivery was ever made."""


class ReceiptMalformed(BadRequest):
    """The text is not a receipt."""


class OffsetOutOfRange(Refused):
    """The offset is before the first message kept, or after the next one to come."""


class TooLarge(Refused): ...


class Overloaded(Refused):
    """Not now: nothing was done, and the same request may succeed later."""


class TooManyInFlight(Overloaded):
    """The consumer or its group holds as many messages as it may: ack some first."""


class ServerFailed(Refused):
    """The server could not do it; it is not the request's fault."""


class PublishIncomplete(ClientError):
    """Some messages of a request were published and others were not; `results` says which."""

    def __init__(self, message: str, results: "list[PublishResult]") -> None:
        super().__init__(message)
        self.results = results


BY_CODE: Final[Mapping[str, type[Refused]]] = {
    "topic_not_found": TopicNotFound,
    "topic_id_not_found": TopicNotFound,
    "partition_not_found": PartitionNotFound,
    "topic_exists": TopicExists,
    "offset_out_of_range": OffsetOutOfRange,
    "message_too_large": TooLarge,
    "receipt_expired": ReceiptExpired,
    "receipt_in_transaction": ReceiptInTransaction,
    "receipt_malformed": ReceiptMalformed,
    "receipt_unknown": ReceiptUnknown,
    "overloaded": Overloaded,
    "too_many_in_flight": TooManyInFlight,
    "shutting_down": Overloaded,
}
BY_STATUS: Final[Mapping[int, type[Refused]]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: TooLarge,
    416: OffsetOutOfRange,
    429: Overloaded,
    503: Overloaded,
}


def refusal(code: str, status: int) -> type[Refused]:
    """The class for an answer: by its code word, else by its status."""
    by_kind = BadRequest if status < 500 else ServerFailed
    return BY_CODE.get(code) or BY_STATUS.get(status) or by_kind
