"""Holding Kafka clients to their quotas, as Kafka does since KIP-219.

    request ──> wait while somebody of the same quota is in debt ──> handle ──> charge
                                                    answer with `throttle_time_ms` <──┤
                             the connection's next request waits for that time <──────┘

Clients wait by themselves when they are told to; those that do not are made to.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from goqueue.broker.quotas import THROTTLE_SECONDS_MAX, Quotas
from goqueue.broker.tenants import Counts
from goqueue.model.batch import Buffer, headers
from goqueue.quotas import (
    CONSUME_BYTES,
    CONSUME_MESSAGES,
    PUBLISH_BYTES,
    PUBLISH_MESSAGES,
    REQUESTS,
    ClientMeter,
)
from goqueue.security import ANONYMOUS
from goqueue.server.kafka.connection import KafkaConnection
from goqueue.wire.apis import ApiKey
from goqueue.wire.frames import RequestHeader
from goqueue.wire.messages import duration

# A connection that was served goes on behind those that wait for the same quota with a request in
# hand: else it would be the first one again each time, and they would wait for as long as one may.
BEHIND_SECONDS: Final = 0.005

_PUBLISHING: Final = (PUBLISH_BYTES, PUBLISH_MESSAGES, REQUESTS)
_CONSUMING: Final = (CONSUME_BYTES, CONSUME_MESSAGES, REQUESTS)
_OTHERS: Final = (REQUESTS,)
_KEYS: Final[dict[int, tuple[str, ...]]] = {
    ApiKey.PRODUCE: _PUBLISHING,
    ApiKey.FETCH: _CONSUMING,
    ApiKey.SHARE_FETCH: _CONSUMING,
}


class Throttle:
    """Of one request."""

    def __init__(
        self,
        quotas: Quotas,
        meter: ClientMeter,
        connection: KafkaConnection,
        counts: Counts | None,
    ) -> None:
        """`counts` are the tenant's, if the client belongs to one."""
        self._counts = counts
        self._quotas = quotas
        self._meter = meter
        self._connection = connection

    async def wait(self, api_key: int) -> None:
        """Until the client's quotas are in no debt, or for as long as one may be made to wait."""
        clock, keys = self._quotas.clock, _KEYS.get(api_key, _OTHERS)
        until = clock.instant() + int(THROTTLE_SECONDS_MAX * 1e9)
        while (wait_ns := self._longest(keys)) and clock.instant() < until:
            seconds = min(wait_ns, until - clock.instant()) / 1e9
            self._connection.mute(seconds)  # what else it sends waits, too
            await clock.sleep(seconds)
        self._meter.take(REQUESTS, 1, clock.instant())

    def _longest(self, keys: Iterable[str]) -> int:
        now = self._quotas.clock.instant()
        return max(self._meter.wait_ns(key, now) for key in keys)

    def charge_publish(self, byte_count: int, message_count: int) -> int:
        """What was written; gives `throttle_time_ms`."""
        if self._counts is not None:
            self._counts.bytes_published += byte_count
            self._counts.messages_published += message_count
        return self._charge({PUBLISH_BYTES: byte_count, PUBLISH_MESSAGES: message_count})

    def charge_consume(self, batches: Iterable[Buffer]) -> int:
        """What is sent; gives `throttle_time_ms`."""
        found = list(batches)
        counted = {CONSUME_BYTES: sum(map(len, found))}
        if self._counts is not None or self._meter.limits(CONSUME_MESSAGES):
            counted[CONSUME_MESSAGES] = sum(each.count for data in found for each in headers(data))
        if self._counts is not None:
            self._counts.bytes_consumed += counted[CONSUME_BYTES]
            self._counts.messages_consumed += counted[CONSUME_MESSAGES]
        return self._charge(counted)

    def charge_other(self, api_key: int, response: Any) -> Any:
        """The response with the time to wait in it, if it has a place for it."""
        if api_key == ApiKey.SHARE_FETCH:
            topics = response.responses
            sent = [each.records or b"" for topic in topics for each in topic.partitions]
            milliseconds = self.charge_consume(sent)
        else:
            milliseconds = self._charge({})
        if not milliseconds or not hasattr(response, "throttle_time"):
            return response
        return replace(response, throttle_time=duration(milliseconds))

    def _charge(self, amounts: dict[str, int]) -> int:
        now = self._quotas.clock.instant()
        waits = {key: self._meter.take(key, amount, now) for key, amount in amounts.items()}
        waits[REQUESTS] = self._meter.wait_ns(REQUESTS, now)
        key = max(waits, key=lambda each: waits[each])
        if not waits[key]:
            return 0
        seconds = min(waits[key] / 1e9, THROTTLE_SECONDS_MAX)
        self._quotas.note_throttled(key)
        if self._counts is not None:
            self._counts.throttled += 1
        self._connection.mute(seconds + BEHIND_SECONDS)
        return max(1, round(seconds * 1000))


def throttle_of(
    quotas: Quotas, connection: KafkaConnection, header: RequestHeader, counts: Counts | None
) -> Throttle | None:
    """None: nothing limits this client, and nobody counts."""
    meter = quotas.meter_of(connection.principal or ANONYMOUS, header.client_id)
    if meter.is_empty and counts is None:
        return None
    return Throttle(quotas, meter, connection, counts)
