"""Users, their roles, access control lists and quotas, as the metadata has them."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from goqueue.cluster.metadata.records import (
    AclsAdded,
    AclsRemoved,
    ApiKeyRemoved,
    ApiKeySet,
    ApiKeysUsed,
    ClientQuotasChanged,
    RolesSet,
    ScramRemoved,
    ScramSet,
    SecurityRecord,
    TenantRemoved,
    TenantSet,
    UserTenantSet,
)
from goqueue.quotas import QuotaEntity, Tenant
from goqueue.security import Acl, ApiKey, ScramCredential


class SecurityTable:
    """Only `apply` changes it."""

    def __init__(self) -> None:
        self._credentials: dict[str, dict[str, ScramCredential]] = {}  # by user and mechanism
        self._roles: dict[str, tuple[str, ...]] = {}
        self._acls: dict[Acl, None] = {}  # in order
        self._keys: dict[str, ApiKey] = {}  # by id
        self._quotas: dict[QuotaEntity, dict[str, float]] = {}  # none is empty
        self._tenants: dict[str, Tenant] = {}  # by id
        self._user_tenants: dict[str, str] = {}  # of those users that belong to one
        self.version = 0  # counts changes
        self.has_limits = False  # invariant: whether there are quotas, tenants or users of tenants
        self._iterations: tuple[int, ...] = ()
        self._iterations_of = 0  # the version that these are of

    def copy(self) -> "SecurityTable":
        copy = SecurityTable()
        copy._credentials = {user: dict(each) for user, each in self._credentials.items()}
        copy._roles = dict(self._roles)
        copy._acls = dict(self._acls)
        copy._keys = dict(self._keys)
        copy._quotas = dict(self._quotas)
        copy._tenants = dict(self._tenants)
        copy._user_tenants = dict(self._user_tenants)
        copy.version = self.version
        copy.has_limits = self.has_limits
        return copy

    # --- reading ----------------------------------------------------------------------------------

    @property
    def users(self) -> list[str]:
        """Who has a password or a role, by name."""
        return sorted(self._credentials.keys() | self._roles.keys())

    @property
    def roles(self) -> Mapping[str, tuple[str, ...]]:
        """Of those users that have any."""
        return self._roles

    @property
    def acls(self) -> Mapping[Acl, None]:
        """A set that keeps its order."""
        return self._acls

    @property
    def api_keys(self) -> Mapping[str, ApiKey]:
        """By id."""
        return self._keys

    @property
    def quotas(self) -> Mapping[QuotaEntity, Mapping[str, float]]:
        """Of those for whom any are set; a change makes a new inner mapping."""
        return self._quotas

    @property
    def iterations(self) -> Sequence[int]:
        """How often passwords are hashed, as users have it; each number once."""
        if self._iterations_of != self.version:
            found = {each.iterations for one in self._credentials.values() for each in one.values()}
            self._iterations, self._iterations_of = tuple(sorted(found)), self.version
        return self._iterations

    @property
    def tenants(self) -> Mapping[str, Tenant]:
        """By id."""
        return self._tenants

    @property
    def user_tenants(self) -> Mapping[str, str]:
        """The tenant's id, by user; the tenant may be gone, and its users are locked out then."""
        return self._user_tenants

    def credentials(self, user: str) -> Mapping[str, ScramCredential]:
        """By mechanism."""
        return self._credentials.get(user, {})

    # --- changing ---------------------------------------------------------------------------------

    def apply(self, record: SecurityRecord) -> None:
        self.version += 1
        match record:
            case ScramSet():
                of_user = self._credentials.setdefault(record.user, {})
                of_user[record.credential.mechanism] = record.credential
            case ScramRemoved():
                of_user = self._credentials.get(record.user, {})
                of_user.pop(record.mechanism, None)
                if not of_user:
                    self._credentials.pop(record.user, None)
            case RolesSet():
                self._roles.pop(record.user, None)
                if record.roles:
                    self._roles[record.user] = record.roles
            case AclsAdded():
                self._acls.update(dict.fromkeys(record.acls))
            case AclsRemoved():
                for acl in record.acls:
                    self._acls.pop(acl, None)
            case ApiKeySet():
                self._keys[record.key.key_id] = record.key
            case ApiKeyRemoved():
                self._keys.pop(record.key_id, None)
            case ApiKeysUsed():
                for key_id, at in record.times.items():
                    key = self._keys.get(key_id)
                    if key is not None:
                        self._keys[key_id] = msgspec.structs.replace(key, last_used_at=at)
            case ClientQuotasChanged():
                self._change_quotas(record)
            case TenantSet():
                self._tenants[record.tenant.tenant_id] = record.tenant
            case TenantRemoved():
                self._tenants.pop(record.tenant_id, None)
            case UserTenantSet():
                self._user_tenants.pop(record.user, None)
                if record.tenant_id:
                    self._user_tenants[record.user] = record.tenant_id
        self._note_limits()

    def _note_limits(self) -> None:
        self.has_limits = bool(self._quotas or self._tenants or self._user_tenants)

    def _change_quotas(self, record: ClientQuotasChanged) -> None:
        merged = {**self._quotas.pop(record.entity, {}), **record.changes}
        rates = {key: rate for key, rate in merged.items() if rate is not None}
        if rates:
            self._quotas[record.entity] = rates

    def snapshot(self) -> Iterator[SecurityRecord]:
        for user, credentials in self._credentials.items():
            for credential in credentials.values():
                yield ScramSet(user, credential)
        for user, roles in self._roles.items():
            yield RolesSet(user, roles)
        if self._acls:
            yield AclsAdded(tuple(self._acls))
        for key in self._keys.values():
            yield ApiKeySet(key)
        for entity, rates in self._quotas.items():
            yield ClientQuotasChanged(entity, dict(rates))
        for tenant in self._tenants.values():
            yield TenantSet(tenant)
        for user, tenant_id in self._user_tenants.items():
            yield UserTenantSet(user, tenant_id)
