"""Why a question about journeys has no answer."""

from goqueue.model.errors import GoQueueError


class TraceError(GoQueueError):
    """The base of all refusals here; never raised itself."""

    code = "trace_error"


class TraceNotFound(TraceError):
    """Nothing is known of such a message: it never was, or it and its events are deleted."""

    code = "trace_not_found"
