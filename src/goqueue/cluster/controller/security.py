"""Users, roles, access control lists and quotas: what may be set, and what changes nothing."""

from collections.abc import Iterator, Sequence
from typing import Final

from goqueue.cluster.controller.tenants import decide_tenants
from goqueue.cluster.features import SECURITY, SECURITY_LEVEL, demand_support
from goqueue.cluster.metadata import (
    AclsAdded,
    AclsRemoved,
    ApiKeyRemoved,
    ApiKeySet,
    ApiKeysUsed,
    ClientQuotasChanged,
    Metadata,
    MetadataRecord,
    RolesSet,
    ScramRemoved,
    ScramSet,
    SecurityRecord,
    TenantRemoved,
    TenantSet,
    UserTenantSet,
)
from goqueue.model.errors import ApiKeyNotFound, InvalidRequest, PolicyViolation, UserNotFound
from goqueue.model.machine import Decision
from goqueue.quotas import check_rate
from goqueue.security import MECHANISMS, check_roles

USERS_MAX: Final = 10_000
ACLS_MAX: Final = 20_000
KEYS_MAX: Final = 10_000
QUOTAS_MAX: Final = 10_000
USER_BYTES_MAX: Final = 200


def change_security(
    metadata: Metadata, changes: Sequence[SecurityRecord]
) -> Decision[MetadataRecord, None]:
    """All of them, or none."""
    demand_support(metadata, SECURITY, SECURITY_LEVEL)
    found = [each for change in changes for each in _decide(metadata, change)]
    _check_bounds(metadata, found)
    return Decision(tuple(found), None)


def _decide(metadata: Metadata, change: SecurityRecord) -> Iterator[SecurityRecord]:
    """What is to be written; nothing if it is so already."""
    table = metadata.security
    match change:
        case ScramSet():
            check_user_name(change.user)
            if change.credential.mechanism not in MECHANISMS:
                raise InvalidRequest(f"no such mechanism: {change.credential.mechanism!r}")
            if table.credentials(change.user).get(change.credential.mechanism) != change.credential:
                yield change
        case ScramRemoved():
            if change.mechanism not in table.credentials(change.user):
                raise UserNotFound(f"user {change.user!r} has no password for {change.mechanism}")
            yield change
        case RolesSet():
            check_user_name(change.user)
            roles = check_roles(change.roles)
            if table.roles.get(change.user, ()) != roles:
                yield RolesSet(change.user, roles)
        case AclsAdded():
            new = tuple(acl.check() for acl in change.acls if acl not in table.acls)
            if new:
                yield AclsAdded(tuple(dict.fromkeys(new)))
        case AclsRemoved():
            there = tuple(acl for acl in change.acls if acl in table.acls)
            if there:
                yield AclsRemoved(there)
        case ApiKeySet():
            check_user_name(change.key.user)
            check_roles(change.key.roles)
            yield change
        case ApiKeyRemoved():
            if change.key_id not in table.api_keys:
                raise ApiKeyNotFound(f"there is no key {change.key_id[:80]!r}")
            yield change
        case ApiKeysUsed():
            keys = table.api_keys
            newer = {
                key_id: at
                for key_id, at in change.times.items()
                if key_id in keys and at > keys[key_id].last_used_at
            }
            if newer:
                yield ApiKeysUsed(newer)
        case ClientQuotasChanged():
            yield from _decide_quotas(metadata, change)
        case TenantSet() | TenantRemoved() | UserTenantSet():
            yield from decide_tenants(metadata, change)


def _decide_quotas(
    metadata: Metadata, change: ClientQuotasChanged
) -> Iterator[ClientQuotasChanged]:
    entity = change.entity.check()
    there = metadata.security.quotas.get(entity, {})
    for key, rate in change.changes.items():
        if rate is not None:
            check_rate(entity, key, rate)
    new = {key: rate for key, rate in change.changes.items() if there.get(key) != rate}
    if new:
        yield ClientQuotasChanged(entity, new)


def check_user_name(user: str) -> None:
    is_good = user.isprintable() and not set(user) & set(':*,="') and user == user.strip()
    if not user or not is_good or len(user.encode()) > USER_BYTES_MAX:
        raise InvalidRequest(
            f"{user[:80]!r} is not a user's name: 1 to {USER_BYTES_MAX} bytes without"
            ' control characters and : * , = "'
        )


def _check_bounds(metadata: Metadata, found: Sequence[SecurityRecord]) -> None:
    table = metadata.security
    users = set(table.users) | {
        each.user for each in found if isinstance(each, ScramSet | RolesSet)
    }
    if len(users) > USERS_MAX:
        raise PolicyViolation(f"there are {USERS_MAX} users already: remove some")
    keys = sum(isinstance(each, ApiKeySet) for each in found)
    if keys and len(table.api_keys) + keys > KEYS_MAX:
        raise PolicyViolation(f"there are {KEYS_MAX} API keys already: remove some")
    entities = {each.entity for each in found if isinstance(each, ClientQuotasChanged)}
    if entities and len(table.quotas.keys() | entities) > QUOTAS_MAX:
        raise PolicyViolation(f"there are quotas for {QUOTAS_MAX} entities already: remove some")
    added = sum(len(each.acls) for each in found if isinstance(each, AclsAdded))
    if added and len(table.acls) + added > ACLS_MAX:
        raise PolicyViolation(
            f"{len(table.acls)} ACLs and {added} more: at most {ACLS_MAX} are kept; prefixed"
            " patterns need fewer"
        )
