"""Results that are not a body of the HTTP API as it is."""

import msgspec

from goqueue.client.http.messages import Received


class Page(msgspec.Struct, frozen=True):
    """Messages in order, and the offset to go on from."""

    messages: list[Received]
    next_offset: int
