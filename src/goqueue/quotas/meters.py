"""The buckets of all clients, made when they are needed, and what one client is held to.

    ClientMeter(alice, app-1) ──> producer_byte_rate:  bucket of alice, bucket of her tenant
                               └> request_rate:        bucket of (alice, app-1)

A meter is looked up once, and again when a quota changed; without any quota it is the same empty
one for everybody, and costs a look at `is_empty`.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from goqueue.model.ids import Instant
from goqueue.quotas.entities import (
    CLIENT_KEYS,
    CONNECTIONS,
    Bucket,
    QuotaEntity,
    find_ip_rate,
    find_rate,
)
from goqueue.quotas.token_bucket import TokenBucket

BUCKETS_MAX: Final = 20_000  # those that are full are forgotten first

Table = Mapping[QuotaEntity, Mapping[str, float]]
Rates = Mapping[str, float]


class ClientMeter:
    """What holds one client back, for each quota."""

    __slots__ = ("_buckets", "is_empty")

    def __init__(self, buckets: Mapping[str, Sequence[TokenBucket]]) -> None:
        self._buckets = buckets
        self.is_empty = not buckets

    def wait_ns(self, key: str, now: Instant) -> int:
        """Until nobody is in debt."""
        return max((each.wait_ns(now) for each in self._buckets.get(key, ())), default=0)

    def take(self, key: str, amount: float, now: Instant) -> int:
        """Gives how long its owner is to wait then."""
        return max((each.take(amount, now) for each in self._buckets.get(key, ())), default=0)

    def limits(self, key: str) -> bool:
        return key in self._buckets


NO_METER: Final = ClientMeter({})


class Meters:
    """Buckets stay what they are when a quota changes: a debt is not forgiven."""

    def __init__(self) -> None:
        self._buckets: dict[tuple[str, Bucket], TokenBucket] = {}

    def meter_of(
        self,
        table: Table,
        user: str | None,
        client_id: str,
        now: Instant,
        tenant: tuple[str, Rates] | None = None,
    ) -> ClientMeter:
        """`tenant` is its name and what it is allowed in all, if the user belongs to one."""
        found: dict[str, list[TokenBucket]] = {}
        for key in CLIENT_KEYS:
            rates = [find_rate(table, key, user, client_id)]
            if tenant is not None and tenant[1].get(key):
                rates.append((("tenant", tenant[0]), tenant[1][key]))
            buckets = [self._bucket(key, *each, now) for each in rates if each is not None]
            if buckets:
                found[key] = buckets
        return ClientMeter(found) if found else NO_METER

    def connection_wait_ns(self, table: Table, ip: str, now: Instant) -> int:
        """Take a new connection from there; else how long it came too early."""
        found = find_ip_rate(table, ip)
        if found is None:
            return 0
        bucket = self._bucket(CONNECTIONS, *found, now)
        wait = bucket.wait_ns(now)
        if not wait:
            bucket.take(1, now)
        return wait

    def _bucket(self, key: str, whose: Bucket, rate: float, now: Instant) -> TokenBucket:
        place = key, whose
        found = self._buckets.get(place)
        if found is None:
            self._make_room(now)
            found = self._buckets[place] = TokenBucket(rate, now)
        elif found.rate != rate:
            found.change_rate(rate, now)
        return found

    def _make_room(self, now: Instant) -> None:
        if len(self._buckets) < BUCKETS_MAX:
            return
        used = {place: each for place, each in self._buckets.items() if not each.is_full(now)}
        self._buckets = used if len(used) < BUCKETS_MAX else {}
