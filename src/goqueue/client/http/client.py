# Generated from async_client.py by `make generate`: change that one, not this.
"""The client for programs that wait."""

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from goqueue.api.groups import GroupDetail, GroupLag, GroupOffset, GroupSummary, MovedOffset
from goqueue.api.messages import PublishResult
from goqueue.api.server import HealthBody, VersionBody
from goqueue.api.topics import PartitionsAdded, SettingInfo, TopicCreated, TopicDetail, TopicSummary
from goqueue.client.errors import ClientError, Refused
from goqueue.client.http import exchange
from goqueue.client.http.calls import groups, topics
from goqueue.client.http.calls.groups import ResetTo
from goqueue.client.http.calls.producers import TIMEOUT_MS
from goqueue.client.http.calls.topics import Call
from goqueue.client.http.connections import CONNECTIONS_MAX, LONG_POLLS_MAX, ConnectionPool
from goqueue.client.http.group_reading import MemberReading, MessageT
from goqueue.client.http.messages import Publishables, Received
from goqueue.client.http.outcomes import all_published, results_in
from goqueue.client.http.queue_verbs import QueueVerbs
from goqueue.client.http.reading import (
    PAGE_MESSAGES,
    Position,
    Reading,
    following_partition,
    following_topic,
    page_of,
    partitions_of,
)
from goqueue.client.http.results import Page
from goqueue.client.http.retries import FOLLOWING, Retries, delay_before_retry
from goqueue.client.http.transactions import TransactionalProducer

T = TypeVar("T")


class Client(QueueVerbs):
    """A server's verbs.  Close it at the end: `with Client(url) as client: …`"""

    def __init__(
        self,
        base_url: str = exchange.DEFAULT_URL,
        *,
        api_key: str | None = None,
        timeout: float = exchange.TIMEOUT_SECONDS,
        retries: int = Retries().count_max,
        connections_max: int = CONNECTIONS_MAX,
        long_polls_max: int = LONG_POLLS_MAX,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """`timeout` is in seconds and for a call as a whole: a free connection, the answer, and up
        to `retries` repetitions.  A call that waits on purpose (`wait_ms`) has that on top.

        Up to `connections_max` calls are under way at once, and beside them up to
        `long_polls_max` that wait for messages; further ones wait for their turn.
        """
        self.base_url = base_url.rstrip("/")
        self._timeout = timeout
        self._retries = Retries(retries)
        with exchange.named_errors(self.base_url, timeout):
            self._pool = ConnectionPool(
                transport,
                exchange.options(self.base_url, api_key),
                connections_max=connections_max,
                long_polls_max=long_polls_max,
            )

    def close(self) -> None:
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # --- the server -------------------------------------------------------------------------------

    def version(self) -> VersionBody:
        return self.send(topics.version())

    def health(self) -> HealthBody:
        """Whether the server serves, and if not, why."""
        return self.send(topics.health())

    def stats(self) -> dict[str, Any]:
        return self.send(topics.stats())

    # --- topics -----------------------------------------------------------------------------------

    def topics(self) -> list[TopicSummary]:
        """All topics, by name."""
        page = self.send(topics.topics())
        found = page.details or []
        while page.next_after:
            page = self.send(topics.topics(page.next_after))
            found = found + (page.details or [])
        return found

    def topic(self, name: str) -> TopicDetail:
        return self.send(topics.topic(name))

    def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> TopicCreated:
        """What is not given is the server's default."""
        return self.send(topics.create_topic(name, partitions, settings or {}))

    def delete_topic(self, name: str) -> None:
        self.send(topics.delete_topic(name))

    def settings(self, name: str) -> dict[str, SettingInfo]:
        return self.send(topics.settings(name)).settings

    def change_settings(
        self, name: str, changes: Mapping[str, str | None]
    ) -> dict[str, SettingInfo]:
        """Set settings of a topic, or with None go back to the default; gives all of them."""
        return self.send(topics.change_settings(name, changes)).settings

    def add_partitions(self, name: str, count: int) -> PartitionsAdded:
        """Grow the topic to `count` partitions in all."""
        return self.send(topics.add_partitions(name, count))

    # --- messages ---------------------------------------------------------------------------------

    def publish(self, topic: str, messages: Publishables) -> list[PublishResult]:
        """Where each message went, in order; raises when any of them was refused.

        `publish("orders", ["text", b"bytes", {"any": "JSON"}, Message("with a key", key="k")])`

        Never sent twice: when the answer is lost, `NoAnswer` says that the outcome is not known.
        """
        return all_published(self.send(topics.publish(topic, messages)).results)

    def publish_each(self, topic: str, messages: Publishables) -> list[PublishResult]:
        """As `publish`, but a message that is refused is a result with an `error`."""
        try:
            return self.send(topics.publish(topic, messages)).results
        except Refused as error:
            return results_in(error)

    def fetch(
        self,
        topic: str,
        partition: int,
        *,
        offset: Position | None = None,
        from_time: int | None = None,
        to_time: int | None = None,
        limit: int | None = None,
        wait_ms: int = 0,
    ) -> Page:
        """One page of a partition; with `wait_ms`, wait for a message when there is none."""
        call = topics.fetch(
            topic,
            partition,
            offset=offset,
            from_time=from_time,
            to_time=to_time,
            limit=limit,
            wait_ms=wait_ms,
        )
        return page_of(self.send(call), topic)

    def transactional(
        self, transactional_id: str, *, timeout_ms: int = TIMEOUT_MS
    ) -> TransactionalProducer:
        """A producer that writes in transactions; see `goqueue.client.http.transactions`.

        One at a time has the id: starting another fences it.  A transaction that is open for
        longer than `timeout_ms` is aborted, and fences it too.
        """
        return TransactionalProducer(self, transactional_id, timeout_ms)

    def delete_messages(self, topic: str, partition: int, before: int) -> None:
        """Delete what lies before an offset."""
        self.send(topics.delete_messages(topic, partition, before))

    def read(
        self,
        topic: str,
        *,
        partition: int | None = None,
        offset: Position | None = None,
        from_time: int | None = None,
        to_time: int | None = None,
        limit: int | None = None,
    ) -> Iterator[Received]:
        """All messages up to the current end of the topic.  Messages from several partitions are
        merged by timestamp.

        A negative offset counts back from the end of each partition.  Times are epoch
        milliseconds: from the first one at or after `from_time`, before `to_time`.
        """
        chosen = partitions_of(
            self.topic(topic),
            partition,
            offset,
            from_time=from_time,
            to_time=to_time,
            page_messages=min(limit or PAGE_MESSAGES, PAGE_MESSAGES),
        )
        reading = Reading(chosen, limit)
        while not reading.is_finished:
            missing = reading.missing()
            pages = self._send_all([each.call() for each in missing])
            for each, page in zip(missing, pages, strict=True):
                each.take(page)
            yield from reading.ready()

    def follow(
        self,
        topic: str,
        *,
        partition: int | None = None,
        offset: Position | None = None,
        from_time: int | None = None,
    ) -> Iterator[Received]:
        """Messages as they come, without end, and through a restart of the server.

        Holds one connection, whatever the number of partitions.  Messages that retention deleted
        before they were read are skipped with a warning in the log `goqueue.client`.
        """
        if partition is None:
            following = following_topic(topic, offset, from_time)
        else:
            found = self.topic(topic)
            following = following_partition(found, partition, offset, from_time)
        while True:
            call = following.call(exchange.LONG_POLL_MS)
            yield from following.take(self.send(call, FOLLOWING))

    # --- consumer groups --------------------------------------------------------------------------

    def groups(self) -> list[GroupSummary]:
        """All groups, by name."""
        page = self.send(groups.groups())
        found = page.groups
        while page.next_after:
            page = self.send(groups.groups(page.next_after))
            found = found + page.groups
        return found

    def group(self, name: str) -> GroupDetail:
        return self.send(groups.group(name))

    def delete_group(self, name: str) -> None:
        """Only one without members."""
        self.send(groups.delete_group(name))

    def group_offsets(self, name: str) -> list[GroupOffset]:
        return self.send(groups.group_offsets(name)).offsets

    def group_lag(self, name: str) -> GroupLag:
        return self.send(groups.group_lag(name))

    def reset_offsets(
        self,
        name: str,
        to: ResetTo,
        *,
        value: int | None = None,
        topic: str | None = None,
        partition: int | None = None,
        dry_run: bool = False,
    ) -> list[MovedOffset]:
        """Move a group's offsets; `value` is the offset, epoch milliseconds, or how far."""
        call = groups.reset_offsets(
            name, to, value=value, topic=topic, partition=partition, dry_run=dry_run
        )
        return self.send(call).offsets

    def join(self, reading: MemberReading[MessageT]) -> None:
        """Become a member: `reading = GroupReading("group", ["topic"])`, or `QueueReading(…)`."""
        reading.joined(self.send(reading.join_call()))

    def poll(
        self, reading: MemberReading[MessageT], *, limit: int | None = None, wait_ms: int = 0
    ) -> list[MessageT]:
        """The next messages; with auto-commit this says that those before are processed.

        A member that was forgotten joins again, and goes on from what is committed.
        """
        try:
            return reading.take(self.send(reading.call(limit=limit, wait_ms=wait_ms)))
        except ClientError as error:
            if not reading.must_join_again(error):
                raise
        self.join(reading)
        return reading.take(self.send(reading.call(limit=limit, wait_ms=wait_ms)))

    def heartbeat(self, reading: MemberReading[MessageT]) -> None:
        """Stay a member while work takes long; a poll does that too."""
        reading.stands(self.send(reading.heartbeat_call()))

    def commit(
        self, reading: MemberReading[MessageT], offsets: Mapping[str, Mapping[int, int]]
    ) -> None:
        """By topic and partition: the offset of the next message to process."""
        self.send(
            groups.commit_offsets(
                reading.group,
                offsets,
                member_id=reading.member_id,
                generation=reading.generation,
            )
        )

    def leave(self, reading: MemberReading[MessageT], *, commit: bool = True) -> None:
        """With auto-commit, `commit` says that what the last poll gave is processed."""
        self.send(reading.leave_call(commit=commit))

    # --- sending ----------------------------------------------------------------------------------

    def send(self, call: Call[T], retries: Retries | None = None) -> T:
        """Carry out a call; repeats it where that is safe (see `goqueue.client.http.retries`)."""
        retries = retries or self._retries
        allowed = self._timeout + call.wait_seconds
        end = time.monotonic() + allowed
        repetitions = 0
        while True:
            try:
                return self._send_once(
                    call, end - time.monotonic() if retries.within_timeout else allowed
                )
            except ClientError as error:
                delay = delay_before_retry(
                    error,
                    repetitions=repetitions,
                    is_repeatable=call.is_repeatable,
                    retries=retries,
                    left_seconds=end - time.monotonic() - call.wait_seconds,
                    jitter=random.uniform,
                )
                if delay is None:
                    raise
            repetitions += 1
            time.sleep(delay)

    def _send_all(self, calls: Sequence[Call[T]]) -> list[T]:
        return list(map(self.send, calls))

    def _send_once(self, call: Call[T], seconds: float) -> T:
        begun = time.monotonic()
        with self._pool.connection(call, seconds - call.wait_seconds) as http:
            left = seconds - (time.monotonic() - begun)
            with exchange.named_errors(self.base_url, left):
                response = http.request(**exchange.request_of(call, left))
        return exchange.result_of(call, response)
