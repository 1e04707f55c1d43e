"""Users, API keys and access control lists."""

from typing import Annotated, Literal

import msgspec

from goqueue.api.parsing import PositiveDurationMs

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=249)]
Role = Literal["admin", "producer", "consumer", "readonly"]
Roles = Annotated[list[Role], msgspec.Meta(max_length=4)]
ResourceName = Literal["topic", "group", "cluster", "transactional_id"]
PatternName = Literal["literal", "prefixed"]
OperationName = Literal[
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "cluster_action",
    "describe_configs",
    "alter_configs",
    "idempotent_write",
]
PermissionName = Literal["allow", "deny"]


class PutUser(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is not given stays as it is."""

    password: Annotated[str, msgspec.Meta(min_length=1, max_length=1024)] | None = None
    roles: Roles | None = None


class UserBody(msgspec.Struct, frozen=True):
    name: str
    roles: list[str]
    mechanisms: list[str]
    """For which it has a password."""


class UserList(msgspec.Struct, frozen=True):
    users: list[UserBody]


class UserDeleted(msgspec.Struct, frozen=True):
    name: str
    deleted: bool


class CreateKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Text
    """For people: what the key is for."""
    user: Text | None = None
    """Whom the key stands for; without one, a user of the key's name."""
    roles: Roles = []
    """That the key has beside those of its user."""
    expires_in: PositiveDurationMs | None = None


class KeyBody(msgspec.Struct, frozen=True):
    id: str
    name: str
    user: str
    roles: list[str]
    created_at: str | int | None
    expires_at: str | int | None
    last_used_at: str | int | None = None
    """Null if nobody knows of a use. Of another node, as of the last hour."""


class KeyCreated(msgspec.Struct, frozen=True):
    key: str
    """Shown once: only a hash of it is kept."""
    id: str
    name: str
    user: str
    roles: list[str]
    expires_at: str | int | None


class KeyList(msgspec.Struct, frozen=True):
    keys: list[KeyBody]


class KeyDeleted(msgspec.Struct, frozen=True):
    id: str
    deleted: bool


class AclBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    principal: Text
    """`User:NAME`, or `User:*` for everybody."""
    operation: OperationName
    resource_type: ResourceName
    resource_name: Text = "kafka-cluster"
    """`*` is every one; of type cluster there is only `kafka-cluster`."""
    pattern: PatternName = "literal"
    """`prefixed`: every resource whose name begins so."""
    permission: PermissionName = "allow"
    host: Text = "*"
    """An IP address of the client, or `*`."""


class AclList(msgspec.Struct, frozen=True):
    acls: list[AclBody]
    count: int


class AclChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    acls: Annotated[list[AclBody], msgspec.Meta(min_length=1, max_length=1000)]
