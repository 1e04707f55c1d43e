"""The place of a reply among the replies of its connection, or beside them."""

from collections.abc import Callable

from goqueue.model.batch import Buffer
from goqueue.wire.apis import has_flexible_response_header
from goqueue.wire.frames import RequestHeader, encode_frame


class ReplySlot:
    """The place of one reply; replies are sent in the order of their requests.

    It does not hold on to the request: a Produce's frame can go while its commit is under way.
    """

    __slots__ = ("_correlation_id", "_filled", "_flexible", "api_key", "parts", "started")

    def __init__(
        self, header: RequestHeader, started: float, filled: Callable[["ReplySlot"], None]
    ) -> None:
        self.api_key = header.api_key
        self.started = started  # loop time
        self.parts: list[Buffer] | None = None  # None until the reply is there; empty for no reply
        self._correlation_id = header.correlation_id
        self._flexible = has_flexible_response_header(header.api_key, header.api_version)
        self._filled = filled

    def fill(self, body: list[Buffer] | None) -> None:
        """Give the reply's body; None for a request that wants no reply."""
        if body is None:
            self.parts = []
        else:
            self.parts = encode_frame(self._correlation_id, self._flexible, body)
        self._filled(self)


class ReplyOutOfTurn:
    """A reply that is sent when it is there; its receiver finds the request by the number."""

    __slots__ = ("_correlation_id", "_send")

    def __init__(self, correlation_id: int, send: Callable[[list[Buffer]], None]) -> None:
        self._correlation_id = correlation_id
        self._send = send

    def fill(self, body: list[Buffer] | None) -> None:
        """Give the reply's body; None: nobody waits for it any more."""
        if body is not None:
            self._send(encode_frame(self._correlation_id, False, body))
