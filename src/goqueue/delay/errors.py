"""Why a request about delayed messages is refused."""

from goqueue.model.errors import GoQueueError, PolicyViolation


class DelayError(GoQueueError):
    """The base of all refusals here; never raised itself."""

    code = "delay_error"


class DelayedMessageNotFound(DelayError):
    """No such message waits: it was never there, was delivered long ago, or cancelled."""

    code = "delayed_message_not_found"


class DelayedMessageFinished(DelayError):
    """The message was delivered or cancelled: it cannot be changed any more."""

    code = "delayed_message_finished"


class TooManyDelayed(PolicyViolation):
    """As many messages of the topic wait as its setting allows."""

    code = "too_many_delayed_messages"
