"""Who may do what: principals, passwords, access control lists, roles.  It decides, no more."""

from goqueue.security.acls import (
    ANY_HOST,
    ANY_NAME,
    ANY_USER,
    CLUSTER_NAME,
    OPERATIONS,
    Acl,
    AclFilter,
    Operation,
    Pattern,
    Permission,
    ResourceType,
)
from goqueue.security.api_keys import KEY_BYTES, ApiKey, make_api_key, parse_api_key
from goqueue.security.audit import (
    KINDS,
    AuditEvent,
    AuditFilter,
    AuditKind,
    AuditLimit,
    claimed_principal,
    shorten,
)
from goqueue.security.authorizer import Authorizer
from goqueue.security.principal import ANONYMOUS, Principal
from goqueue.security.roles import ADMIN, ROLES, check_roles
from goqueue.security.scram import (
    ITERATIONS_DEFAULT,
    MECHANISMS,
    NONCE_BYTES,
    SALT_BYTES,
    ClientFirst,
    ScramCredential,
    ScramExchange,
    credential_of,
    derive_credential,
    parse_client_first,
    password_matches,
    stand_in_credential,
)
from goqueue.security.scram_client import ScramClient
from goqueue.security.throttle import LoginThrottle

__all__ = [
    "ADMIN",
    "ANONYMOUS",
    "ANY_HOST",
    "ANY_NAME",
    "ANY_USER",
    "CLUSTER_NAME",
    "ITERATIONS_DEFAULT",
    "KEY_BYTES",
    "KINDS",
    "MECHANISMS",
    "NONCE_BYTES",
    "OPERATIONS",
    "ROLES",
    "SALT_BYTES",
    "Acl",
    "AclFilter",
    "ApiKey",
    "AuditEvent",
    "AuditFilter",
    "AuditKind",
    "AuditLimit",
    "Authorizer",
    "ClientFirst",
    "LoginThrottle",
    "Operation",
    "Pattern",
    "Permission",
    "Principal",
    "ResourceType",
    "ScramClient",
    "ScramCredential",
    "ScramExchange",
    "check_roles",
    "claimed_principal",
    "credential_of",
    "derive_credential",
    "make_api_key",
    "parse_api_key",
    "parse_client_first",
    "password_matches",
    "shorten",
    "stand_in_credential",
]
