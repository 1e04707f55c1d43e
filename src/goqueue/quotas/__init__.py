"""How much each client may use: buckets, whom a quota is for, tenants and their names."""

from goqueue.quotas.entities import (
    ANY,
    CLIENT_KEYS,
    CONNECTIONS,
    CONSUME_BYTES,
    CONSUME_MESSAGES,
    IP_KEYS,
    PUBLISH_BYTES,
    PUBLISH_MESSAGES,
    REQUESTS,
    QuotaEntity,
    check_rate,
    find_rate,
)
from goqueue.quotas.meters import NO_METER, ClientMeter, Meters
from goqueue.quotas.tenants import (
    ACTIVE,
    DISABLED,
    SUSPENDED,
    Namespace,
    Tenant,
    TenantQuotas,
    owner_of,
)
from goqueue.quotas.token_bucket import TokenBucket

__all__ = [
    "ACTIVE",
    "ANY",
    "CLIENT_KEYS",
    "CONNECTIONS",
    "CONSUME_BYTES",
    "CONSUME_MESSAGES",
    "DISABLED",
    "IP_KEYS",
    "NO_METER",
    "PUBLISH_BYTES",
    "PUBLISH_MESSAGES",
    "REQUESTS",
    "SUSPENDED",
    "ClientMeter",
    "Meters",
    "Namespace",
    "QuotaEntity",
    "Tenant",
    "TenantQuotas",
    "TokenBucket",
    "check_rate",
    "find_rate",
    "owner_of",
]
