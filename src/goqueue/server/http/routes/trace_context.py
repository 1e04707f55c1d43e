"""W3C Trace Context of a request: the trace of whoever publishes goes on in the messages."""

from collections.abc import Sequence
from typing import Any

import msgspec
from litestar import Request

from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.trace.ids import TRACEPARENT, parse_traceparent


def continue_trace(
    messages: Sequence[OutgoingMessage], request: Request[Any, Any, Any]
) -> list[OutgoingMessage]:
    """Messages without a trace of their own belong to that of the request, if it has one."""
    parent = request.headers.get(TRACEPARENT, "").encode("latin-1")
    if parse_traceparent(parent) is None:
        return list(messages)
    return [
        each
        if any(name == TRACEPARENT for name, _ in each.headers)
        else msgspec.structs.replace(each, headers=(*each.headers, (TRACEPARENT, parent)))
        for each in messages
    ]
