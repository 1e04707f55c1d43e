"""How much each client may use: token buckets, whom a quota is for, and which one counts."""

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
from goqueue.quotas.token_bucket import TokenBucket

__all__ = [
    "ANY",
    "CLIENT_KEYS",
    "CONNECTIONS",
    "CONSUME_BYTES",
    "CONSUME_MESSAGES",
    "IP_KEYS",
    "NO_METER",
    "PUBLISH_BYTES",
    "PUBLISH_MESSAGES",
    "REQUESTS",
    "ClientMeter",
    "Meters",
    "QuotaEntity",
    "TokenBucket",
    "check_rate",
    "find_rate",
]
