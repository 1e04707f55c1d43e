"""Tenants: a space of names of its own, and limits for all of its users together.

What a tenant's users call `orders` is `acme.orders` inside: topics, groups, transactional ids,
subjects of schemas and schedules alike.  An id has no dot, so no tenant's prefix begins another's.
"""

import re
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from goqueue.model.errors import InvalidRequest
from goqueue.quotas.entities import (
    CONSUME_BYTES,
    CONSUME_MESSAGES,
    PUBLISH_BYTES,
    PUBLISH_MESSAGES,
    REQUESTS,
)

ACTIVE: Final = "active"
SUSPENDED: Final = "suspended"
DISABLED: Final = "disabled"
Status = Literal["active", "suspended", "disabled"]

TEXT_LENGTH_MAX: Final = 1_000
METADATA_MAX: Final = 50
LIMIT_MAX: Final = 2**53

_ID: Final = re.compile(r"[a-z][a-z0-9-]{2,63}", re.ASCII)
_HOURS_168: Final = 168 * 3600 * 1000
_MIB: Final = 1024 * 1024


class TenantQuotas(msgspec.Struct, frozen=True):
    """Of all users of a tenant together; 0: no limit.  Rates are each node's."""

    publish_messages_per_second: int = 1_000
    consume_messages_per_second: int = 5_000
    publish_bytes_per_second: int = 10 * _MIB
    consume_bytes_per_second: int = 50 * _MIB
    requests_per_second: int = 0
    storage_bytes: int = 10 * 1024 * _MIB
    topics: int = 100
    partitions_per_topic: int = 16
    partitions: int = 500
    message_bytes: int = _MIB
    retention_ms: int = _HOURS_168
    delay_ms: int = _HOURS_168
    connections: int = 100
    groups: int = 50
    consumers_per_group: int = 20

    @property
    def rates(self) -> Mapping[str, float]:
        """In the words of quotas."""
        return {
            PUBLISH_MESSAGES: self.publish_messages_per_second,
            CONSUME_MESSAGES: self.consume_messages_per_second,
            PUBLISH_BYTES: self.publish_bytes_per_second,
            CONSUME_BYTES: self.consume_bytes_per_second,
            REQUESTS: self.requests_per_second,
        }

    def check(self) -> "TenantQuotas":
        for name in self.__struct_fields__:
            if not 0 <= getattr(self, name) <= LIMIT_MAX:
                raise InvalidRequest(f"{name}: 0 (no limit) to 2^53")
        return self


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    tenant_id: str
    name: str = ""
    description: str = ""
    status: Status = ACTIVE
    reason: str = ""  # why it is suspended
    created_at: int = 0  # milliseconds
    updated_at: int = 0
    suspended_at: int = 0
    quotas: TenantQuotas = TenantQuotas()
    metadata: dict[str, str] = {}

    def check(self) -> "Tenant":
        """Itself; raises `InvalidRequest`."""
        if _ID.fullmatch(self.tenant_id) is None:
            raise InvalidRequest(
                f"{self.tenant_id[:80]!r} is no tenant's id: 3 to 64 of a-z, 0-9 and -,"
                " beginning with a-z"
            )
        if max(map(len, (self.name, self.description, self.reason))) > TEXT_LENGTH_MAX:
            raise InvalidRequest(f"a text of more than {TEXT_LENGTH_MAX} characters")
        texts = [*self.metadata, *self.metadata.values()]
        if len(self.metadata) > METADATA_MAX or any(len(each) > TEXT_LENGTH_MAX for each in texts):
            raise InvalidRequest(f"metadata has at most {METADATA_MAX} short texts")
        self.quotas.check()
        return self

    @property
    def refusal(self) -> str | None:
        """Why its users may not come in, if so."""
        if self.status == ACTIVE:
            return None
        told = f": {self.reason}" if self.reason else ""
        return f"the tenant {self.tenant_id} is {self.status}{told}"


def owner_of(name: str) -> str:
    """The id of the tenant that a name would belong to, if there is such a tenant."""
    return name.partition(".")[0] if "." in name else ""


class Namespace:
    """The names of one tenant, as its users write them and as they are inside."""

    __slots__ = ("_text", "prefix", "tenant_id")

    def __init__(self, tenant_id: str) -> None:
        self.tenant_id = tenant_id
        self.prefix = f"{tenant_id}."
        self._text = re.compile(rf"(?<![a-zA-Z0-9._-]){re.escape(self.prefix)}")

    def holds(self, name: str) -> bool:
        return name.startswith(self.prefix) and len(name) > len(self.prefix)

    def into(self, name: str) -> str:
        """As it is inside.  What is no name stays none, and is refused as such."""
        return name if name in ("", ".", "..") else self.prefix + name

    def out(self, name: str) -> str:
        """As its users know it; empty if it is none of theirs."""
        return name[len(self.prefix) :] if name.startswith(self.prefix) else ""

    def out_text(self, text: str) -> str:
        """A text for people that may have such names in it."""
        return self._text.sub("", text) if self.prefix in text else text
