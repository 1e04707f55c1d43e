"""Tenants: who they are, what they may use, and what they use."""

from typing import Annotated, Literal

import msgspec

from goqueue.api.parsing import DurationMs, TakesDurations

TenantId = Annotated[str, msgspec.Meta(pattern="^[a-z][a-z0-9-]{2,63}$")]
Text = Annotated[str, msgspec.Meta(max_length=1000)]
Limit = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
TenantStatus = Literal["active", "suspended", "disabled"]


class TenantQuotasBody(msgspec.Struct, frozen=True):
    """0: no limit. Rates are those of each node."""

    publish_messages_per_second: int
    consume_messages_per_second: int
    publish_bytes_per_second: int
    consume_bytes_per_second: int
    requests_per_second: int
    storage_bytes: int
    topics: int
    partitions_per_topic: int
    partitions: int
    message_bytes: int
    retention_ms: int
    delay_ms: int
    connections: int
    groups: int
    consumers_per_group: int


class TenantQuotasChange(TakesDurations, frozen=True, forbid_unknown_fields=True):
    """What is not given stays as it is; 0: no limit."""

    publish_messages_per_second: Limit | None = None
    consume_messages_per_second: Limit | None = None
    publish_bytes_per_second: Limit | None = None
    consume_bytes_per_second: Limit | None = None
    requests_per_second: Limit | None = None
    storage_bytes: Limit | None = None
    topics: Limit | None = None
    partitions_per_topic: Limit | None = None
    partitions: Limit | None = None
    message_bytes: Limit | None = None
    retention_ms: DurationMs | None = None
    delay_ms: DurationMs | None = None
    connections: Limit | None = None
    groups: Limit | None = None
    consumers_per_group: Limit | None = None


class CreateTenant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: TenantId
    """What its names begin with, and a dot: 3 to 64 of a-z, 0-9 and -."""
    name: Text = ""
    description: Text = ""
    quotas: TenantQuotasChange = TenantQuotasChange()
    metadata: Annotated[dict[str, str], msgspec.Meta(max_length=50)] = {}


class ChangeTenant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is not given stays as it is."""

    name: Text | None = None
    description: Text | None = None
    quotas: TenantQuotasChange | None = None
    metadata: Annotated[dict[str, str], msgspec.Meta(max_length=50)] | None = None


class SuspendTenant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]
    """What its users are told."""


class TenantBody(msgspec.Struct, frozen=True):
    id: str
    name: str
    description: str
    status: str
    created_at: str | int | None
    updated_at: str | int | None
    suspended_at: str | int | None
    suspend_reason: str | None
    quotas: TenantQuotasBody
    metadata: dict[str, str]
    users: list[str]
    """Who belongs to it by name; tokens may name it, too."""


class TenantList(msgspec.Struct, frozen=True):
    tenants: list[TenantBody]
    count: int


class TenantDeleted(msgspec.Struct, frozen=True):
    id: str
    deleted: bool
    topics_deleted: int


class TenantOnNode(msgspec.Struct, frozen=True):
    """What a tenant's users did through one node, since it started."""

    node_id: int
    messages_published: int
    messages_consumed: int
    throttled_requests: int
    connections: int


class TenantUsage(msgspec.Struct, frozen=True):
    """Messages, bytes and connections are those of all nodes, each since it started."""

    id: str
    messages_published: int
    bytes_published: int
    messages_consumed: int
    bytes_consumed: int
    throttled_requests: int
    connections: int
    storage_bytes: int
    topics: int
    partitions: int
    nodes: list[TenantOnNode]


class TenantStats(msgspec.Struct, frozen=True):
    """How much of its limits a tenant uses, in percent; null: there is no limit."""

    id: str
    storage_percent: float | None
    topics_percent: float | None
    partitions_percent: float | None
    connections_percent: float | None


class TenantTopics(msgspec.Struct, frozen=True):
    id: str
    topics: list[str]
    """As the tenant's users know them."""


class TenantUser(msgspec.Struct, frozen=True):
    user: str
    tenant: str | None
