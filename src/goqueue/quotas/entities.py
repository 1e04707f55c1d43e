"""Whom a quota is for, as Kafka names it, and which one counts.

Of those that match a client the most specific one counts, for each quota apart:

    user and client id        alice, app-1
    user, any client id       alice, *
    user                      alice
    any user and client id    *, app-1
    any user, any client id   *, *
    any user                  *
    client id                 app-1
    any client id             *

A quota for any user is no quota that all of them share: each has a bucket of its own.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from goqueue.model.errors import InvalidRequest

ANY: Final = ""  # Kafka's <default>: everybody who has no quota of its own
NAME_BYTES_MAX: Final = 249

# In the words of Kafka's tools, which know those of bytes; requests and messages are ours.
PUBLISH_BYTES: Final = "producer_byte_rate"
CONSUME_BYTES: Final = "consumer_byte_rate"
PUBLISH_MESSAGES: Final = "producer_message_rate"
CONSUME_MESSAGES: Final = "consumer_message_rate"
REQUESTS: Final = "request_rate"
CONNECTIONS: Final = "connection_creation_rate"  # of an IP address

CLIENT_KEYS: Final = (PUBLISH_BYTES, CONSUME_BYTES, PUBLISH_MESSAGES, CONSUME_MESSAGES, REQUESTS)
IP_KEYS: Final = (CONNECTIONS,)
RATE_MAX: Final = float(2**53)

_NOT_SERVED: Final = {
    "request_percentage": "no thread's time is measured here: set request_rate",
    "controller_mutation_rate": "set request_rate, or a tenant's limits of topics and partitions",
}

Bucket = tuple[str | None, ...]  # whose it is: user, client id, IP address


class QuotaEntity(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """None: it does not matter; `ANY`: whoever has none of its own."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    def check(self) -> "QuotaEntity":
        """Itself; raises `InvalidRequest`."""
        if self.ip is not None and (self.user is not None or self.client_id is not None):
            raise InvalidRequest("a quota is for a user, a client id, both, or an IP address")
        names = [each for each in (self.user, self.client_id, self.ip) if each is not None]
        if not names:
            raise InvalidRequest("say whom the quota is for: a user, a client id, an IP address")
        if any(len(each.encode()) > NAME_BYTES_MAX for each in names):
            raise InvalidRequest(f"a name has at most {NAME_BYTES_MAX} bytes")
        return self

    def __str__(self) -> str:
        parts = (("user", self.user), ("client-id", self.client_id), ("ip", self.ip))
        named = [(kind, name) for kind, name in parts if name is not None]
        texts = (f"{kind} {name!r}" if name else f"{kind} <default>" for kind, name in named)
        return ", ".join(texts)


def check_rate(entity: QuotaEntity, key: str, rate: float) -> None:
    """Raises `InvalidRequest`."""
    known = IP_KEYS if entity.ip is not None else CLIENT_KEYS
    if key not in known:
        hint = _NOT_SERVED.get(key) or f"the quotas of {entity} are {', '.join(known)}"
        raise InvalidRequest(f"{key[:80]!r} is no quota: {hint}")
    if not 0 < rate <= RATE_MAX:  # also NaN
        raise InvalidRequest(f"{key} is {rate!r}: a rate is above 0, and at most 2^53 a second")


def find_rate(
    table: Mapping[QuotaEntity, Mapping[str, float]], key: str, user: str | None, client_id: str
) -> tuple[Bucket, float] | None:
    """The rate that counts for such a client, and whose bucket it is; None: there is none."""
    for entity, bucket in _candidates(user, client_id):
        rate = table.get(entity, {}).get(key)
        if rate is not None:
            return bucket, rate
    return None


def find_ip_rate(
    table: Mapping[QuotaEntity, Mapping[str, float]], ip: str
) -> tuple[Bucket, float] | None:
    for name in (ip, ANY):
        rate = table.get(QuotaEntity(ip=name), {}).get(CONNECTIONS)
        if rate is not None:
            return (None, None, ip), rate
    return None


def _candidates(user: str | None, client_id: str) -> Iterator[tuple[QuotaEntity, Bucket]]:
    """The most specific one first.  None is nobody's name: then quotas of users do not count."""
    if user is not None:
        for name in (user, ANY):
            yield QuotaEntity(name, client_id), (user, client_id, None)
            yield QuotaEntity(name, ANY), (user, client_id, None)
            yield QuotaEntity(name), (user, None, None)
    for name in (client_id, ANY):
        yield QuotaEntity(client_id=name), (None, client_id, None)
