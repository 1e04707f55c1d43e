"""What is put on record: who asked for what, from where, whether it was allowed, and why.

    authentication   a login that failed; one that succeeded, at first sight
    authorization    something that was refused, because a permission lacks
    change           an administrative change that was allowed, and what came of it
    left_out         how many events a flood kept from the record

No event has a secret in it: neither passwords nor keys nor tokens get here.
"""

import re
from collections import Counter, OrderedDict
from typing import Final, Literal, get_args

import msgspec

from goqueue.model.ids import Instant

AuditKind = Literal["authentication", "authorization", "change", "left_out"]
KINDS: Final[tuple[AuditKind, ...]] = get_args(AuditKind)

TEXT_LENGTH_MAX: Final = 500  # of each field
HOSTS_MAX: Final = 1_024  # whose events are counted apart
BURST_SECONDS: Final = 10  # of which events may come at once
SECOND_NS: Final = 1_000_000_000

# People put keys and tokens where a name belongs; then the name is a secret.
_SECRET_NAME: Final = re.compile(
    r"gq_[0-9a-f]{16,}|[\w-]{8,}\.[\w-]{8,}\.[\w-]*|.{101,}", re.DOTALL
)


class AuditEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    time: str
    """RFC 3339."""
    node: int
    kind: AuditKind
    allowed: bool
    principal: str = ""
    """Who asked, as `User:alice`; of a login that failed, who it claimed to be."""
    host: str = ""
    """The client's address."""
    listener: str = ""
    """`kafka`, `http` or `cluster`."""
    request: str = ""
    """Kafka's API, or HTTP's method and route."""
    operation: str = ""
    """What was demanded (WRITE), or how somebody logged in (SCRAM-SHA-512)."""
    resource: str = ""
    """On what: `topic:orders`, or a path."""
    reason: str = ""
    """Why it was allowed, or not."""
    result: str = ""
    """What came of a change: `ok`, or an error's code."""
    details: str = ""
    """What was changed, without secrets."""
    count: int = 0
    """Of events that were left out."""


def claimed_principal(name: str) -> str:
    """For the record; empty without a name, and without what may be a secret."""
    if not name:
        return ""
    return "User:(hidden)" if _SECRET_NAME.fullmatch(name) else f"User:{name}"


def shorten(text: str) -> str:
    return text if len(text) <= TEXT_LENGTH_MAX else f"{text[: TEXT_LENGTH_MAX - 1]}…"


class AuditLimit:
    """How many events are written: so many a second in all, and fewer of one address.

    Changes are always written: only administrators make them.
    """

    def __init__(self, per_second: float, per_host_second: float) -> None:
        self._total = _Bucket(per_second)
        self._per_host_second = per_host_second
        self._hosts: OrderedDict[str, _Bucket] = OrderedDict()  # the least recently seen first
        self._left_out: Counter[AuditKind] = Counter()

    def allows(self, kind: AuditKind, host: str, now: Instant) -> bool:
        """Whether it is written; if not, it is counted."""
        if kind in ("change", "left_out"):
            return True
        bucket = self._hosts.pop(host, None) or _Bucket(self._per_host_second)
        self._hosts[host] = bucket
        if len(self._hosts) > HOSTS_MAX:
            self._hosts.popitem(last=False)
        if bucket.take(now) and self._total.take(now):
            return True
        self._left_out[kind] += 1
        return False

    def take_left_out(self) -> Counter[AuditKind]:
        found, self._left_out = self._left_out, Counter()
        return found


class _Bucket:
    __slots__ = ("_at", "_per_second", "_tokens")

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._tokens = max(1.0, per_second * BURST_SECONDS)
        self._at: Instant | None = None

    def take(self, now: Instant) -> bool:
        if self._at is not None:
            more = (now - self._at) / SECOND_NS * self._per_second
            self._tokens = min(self._tokens + more, max(1.0, self._per_second * BURST_SECONDS))
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class AuditFilter(msgspec.Struct, frozen=True):
    """Which events are looked for; None is all."""

    kind: AuditKind | None = None
    allowed: bool | None = None
    principal: str | None = None
    """`User:alice`, or `alice`."""
    host: str | None = None
    operation: str | None = None
    """The operation, or the request."""
    resource: str | None = None
    """A part of it."""

    def matches(self, event: AuditEvent) -> bool:
        return (
            self.kind in (None, event.kind)
            and self.allowed in (None, event.allowed)
            and (self.principal is None or event.principal in _principals(self.principal))
            and self.host in (None, event.host)
            and (self.operation is None or self._matches_operation(event))
            and (self.resource is None or self.resource in event.resource)
        )

    def _matches_operation(self, event: AuditEvent) -> bool:
        wanted = (self.operation or "").lower()
        return wanted == event.operation.lower() or wanted in event.request.lower()


def _principals(text: str) -> tuple[str, str]:
    return text, f"User:{text}"
