"""The audit log."""

from typing import Literal

import msgspec

AuditKindName = Literal["authentication", "authorization", "change", "left_out"]


class AuditEventBody(msgspec.Struct, frozen=True):
    offset: int
    """Its place in the topic `__audit`."""
    time: str
    node: int
    kind: AuditKindName
    """`authentication`: a login; `authorization`: a refusal; `change`: an administrative change;
    `left_out`: how many events a flood kept from the log."""
    allowed: bool
    principal: str
    """Who asked; of a login that failed, who it claimed to be."""
    host: str
    listener: str
    request: str
    """Kafka's API, or HTTP's method and route."""
    operation: str
    """What was demanded, or how somebody logged in."""
    resource: str
    reason: str
    """Why it was allowed, or not."""
    result: str
    """What came of a change: `ok`, or an error's code."""
    details: str
    count: int
    """Of events that were left out."""


class AuditList(msgspec.Struct, frozen=True):
    events: list[AuditEventBody]
    """The oldest first."""
    next_offset: int
    """Ask with `offset` from here on for what follows."""
    is_end: bool
    """Whether nothing newer was there."""
