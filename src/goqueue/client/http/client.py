# Generated from async_client.py by `make generate`: change that one, not this.
"""The client for programs that wait."""

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar, Unpack

import httpx

from goqueue.api.cluster import TopicPlaces
from goqueue.api.groups import GroupSummary
from goqueue.api.messages import PublishResult
from goqueue.api.topics import TopicSummary
from goqueue.client.errors import ClientError, Refused
from goqueue.client.http import exchange
from goqueue.client.http.addresses import Addresses
from goqueue.client.http.calls import audit as audit_calls
from goqueue.client.http.calls import cluster as cluster_calls
from goqueue.client.http.calls import delays as delay_calls
from goqueue.client.http.calls import groups as group_calls
from goqueue.client.http.calls import queues as queue_calls
from goqueue.client.http.calls import quotas as quota_calls
from goqueue.client.http.calls import schemas as schema_calls
from goqueue.client.http.calls import security as security_calls
from goqueue.client.http.calls import tenants as tenant_calls
from goqueue.client.http.calls import topics as topic_calls
from goqueue.client.http.calls.call import Call, verb
from goqueue.client.http.calls.producers import TIMEOUT_MS
from goqueue.client.http.connections import CONNECTIONS_MAX, LONG_POLLS_MAX, ConnectionPool
from goqueue.client.http.group_reading import MemberReading, MessageT
from goqueue.client.http.login import Login
from goqueue.client.http.messages import Publishables, Received
from goqueue.client.http.outcomes import results_in
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
from goqueue.client.http.schedules import ScheduleVerbs
from goqueue.client.http.traces import TraceVerbs
from goqueue.client.http.transactions import TransactionalProducer

T = TypeVar("T")


class Client(ScheduleVerbs, TraceVerbs):
    """A server's verbs.  Close it at the end: `with Client(url) as client: …`"""

    def __init__(
        self,
        base_url: str = exchange.DEFAULT_URL,
        *,
        timeout: float = exchange.TIMEOUT_SECONDS,
        retries: int = Retries().count_max,
        connections_max: int = CONNECTIONS_MAX,
        long_polls_max: int = LONG_POLLS_MAX,
        transport: httpx.BaseTransport | None = None,
        **login: Unpack[Login],
    ) -> None:
        """`timeout` is in seconds and for a call as a whole: a free connection, the answer, and up
        to `retries` repetitions.  A call that waits on purpose (`wait_ms`) has that on top.

        `base_url` may name several nodes of a cluster with commas between: when one does not
        answer, the next is asked.

        Up to `connections_max` calls are under way at once, and beside them up to
        `long_polls_max` that wait for messages; further ones wait for their turn.

        To log in: `api_key`, or `user` and `password`, or `cert_file` and `key_file`; `ca_file`
        names the authority of an https server that this machine does not know.
        """
        self._addresses = Addresses(base_url)
        self._timeout = timeout
        self._retries = Retries(retries)
        with exchange.named_errors(self.base_url, timeout):
            self._pool = ConnectionPool(
                transport,
                exchange.options(self.base_url, login),
                connections_max=connections_max,
                long_polls_max=long_polls_max,
            )

    @property
    def base_url(self) -> str:
        """Of the server that is asked at present."""
        return self._addresses.current

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

    version = verb(topic_calls.version)
    health = verb(topic_calls.health)
    stats = verb(topic_calls.stats)
    metrics = verb(topic_calls.metrics)

    # --- schemas ----------------------------------------------------------------------------------

    schema_stats = verb(schema_calls.schema_stats)
    schema_version = verb(schema_calls.schema_version)
    schema_by_id = verb(schema_calls.schema_by_id)
    register_schema = verb(schema_calls.register_schema)
    check_schema = verb(schema_calls.check_schema)
    delete_schema_version = verb(schema_calls.delete_schema_version)
    delete_subject = verb(schema_calls.delete_subject)
    schema_level = verb(schema_calls.schema_level)
    set_schema_level = verb(schema_calls.set_schema_level)

    # --- users, keys, access control lists --------------------------------------------------------

    users = verb(security_calls.users)
    user = verb(security_calls.user)
    put_user = verb(security_calls.put_user)
    delete_user = verb(security_calls.delete_user)
    api_keys = verb(security_calls.api_keys)
    create_api_key = verb(security_calls.create_api_key)
    delete_api_key = verb(security_calls.delete_api_key)
    acls = verb(security_calls.acls)
    add_acls = verb(security_calls.add_acls)
    remove_acls = verb(security_calls.remove_acls)
    quotas = verb(quota_calls.quotas)
    set_quotas = verb(quota_calls.set_quotas)
    delete_quotas = verb(quota_calls.delete_quotas)
    search_audit = verb(audit_calls.search_audit)
    tenants = verb(tenant_calls.tenants)
    tenant = verb(tenant_calls.tenant)
    create_tenant = verb(tenant_calls.create_tenant)
    change_tenant = verb(tenant_calls.change_tenant)
    suspend_tenant = verb(tenant_calls.suspend_tenant)
    activate_tenant = verb(tenant_calls.activate_tenant)
    disable_tenant = verb(tenant_calls.disable_tenant)
    delete_tenant = verb(tenant_calls.delete_tenant)
    tenant_usage = verb(tenant_calls.tenant_usage)
    tenant_stats = verb(tenant_calls.tenant_stats)
    tenant_topics = verb(tenant_calls.tenant_topics)
    add_tenant_user = verb(tenant_calls.add_tenant_user)
    remove_tenant_user = verb(tenant_calls.remove_tenant_user)

    # --- delayed messages -------------------------------------------------------------------------

    delayed_messages = verb(delay_calls.delayed_messages)
    delayed_message = verb(delay_calls.delayed_message)
    cancel_delay = verb(delay_calls.cancel_delay)
    reschedule_delay = verb(delay_calls.reschedule_delay)
    delay_stats = verb(delay_calls.delay_stats)

    # --- the cluster ------------------------------------------------------------------------------

    cluster_state = verb(cluster_calls.cluster_state)
    cluster_health = verb(cluster_calls.cluster_health)
    cluster_nodes = verb(cluster_calls.cluster_nodes)
    cluster_quorum = verb(cluster_calls.cluster_quorum)
    coordinators = verb(cluster_calls.coordinators)
    partition_info = verb(cluster_calls.partition_info)
    drain_node = verb(cluster_calls.drain_node)
    undrain_node = verb(cluster_calls.undrain_node)
    remove_node = verb(cluster_calls.remove_node)
    elect_leaders = verb(cluster_calls.elect_leaders)
    reassign = verb(cluster_calls.reassign)
    reassignments = verb(cluster_calls.reassignments)
    cancel_reassignments = verb(cluster_calls.cancel_reassignments)
    rebalance = verb(cluster_calls.rebalance)
    cluster_events = verb(cluster_calls.cluster_events)
    cluster_features = verb(cluster_calls.cluster_features)
    raise_features = verb(cluster_calls.raise_features)
    restart_node = verb(cluster_calls.restart_node)

    def topic_places(self, *, sizes: bool = False) -> list[TopicPlaces]:
        """Where the partitions of all topics are, by name; with `sizes` also how large they are."""
        page = self.send(cluster_calls.topic_places(sizes=sizes))
        found = page.topics
        while page.next_after:
            page = self.send(cluster_calls.topic_places(page.next_after, sizes=sizes))
            found = found + page.topics
        return found

    # --- topics -----------------------------------------------------------------------------------

    def topics(self) -> list[TopicSummary]:
        """All topics, by name."""
        page = self.send(topic_calls.topics())
        found = page.details or []
        while page.next_after:
            page = self.send(topic_calls.topics(page.next_after))
            found = found + (page.details or [])
        return found

    topic = verb(topic_calls.topic)
    create_topic = verb(topic_calls.create_topic)
    delete_topic = verb(topic_calls.delete_topic)
    settings = verb(topic_calls.settings)
    change_settings = verb(topic_calls.change_settings)
    add_partitions = verb(topic_calls.add_partitions)

    # --- messages ---------------------------------------------------------------------------------

    publish = verb(topic_calls.publish)

    def publish_each(self, topic: str, messages: Publishables) -> list[PublishResult]:
        """As `publish`, but a message that is refused is a result with an `error`."""
        try:
            return self.send(topic_calls.publish_each(topic, messages)).results
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
        call = topic_calls.fetch(
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

    delete_messages = verb(topic_calls.delete_messages)

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
        page = self.send(group_calls.groups())
        found = page.groups
        while page.next_after:
            page = self.send(group_calls.groups(page.next_after))
            found = found + page.groups
        return found

    group = verb(group_calls.group)
    delete_group = verb(group_calls.delete_group)
    group_offsets = verb(group_calls.group_offsets)
    group_lag = verb(group_calls.group_lag)
    reset_offsets = verb(group_calls.reset_offsets)

    def join(self, reading: MemberReading[MessageT]) -> None:
        """Become a member: `reading = GroupReading("group", ["topic"])`, or `QueueReading(…)`."""
        reading.note_joined(self.send(reading.join_call()))

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
            group_calls.commit_offsets(
                reading.group,
                offsets,
                member_id=reading.member_id,
                generation=reading.generation,
            )
        )

    def leave(self, reading: MemberReading[MessageT], *, commit: bool = True) -> None:
        """With auto-commit, `commit` says that what the last poll gave is processed."""
        self.send(reading.leave_call(commit=commit))

    # --- queues -----------------------------------------------------------------------------------

    receive = verb(queue_calls.receive)
    ack = verb(queue_calls.ack)
    nack = verb(queue_calls.nack)
    reject = verb(queue_calls.reject)
    extend = verb(queue_calls.extend)
    release = verb(queue_calls.release)
    ack_range = verb(queue_calls.ack_range)
    peek = verb(queue_calls.peek)
    in_flight = verb(queue_calls.in_flight)
    queue_settings = verb(queue_calls.queue_settings)
    change_queue_settings = verb(queue_calls.change_queue_settings)
    queue_stats = verb(queue_calls.queue_stats)
    priority_stats = verb(queue_calls.priority_stats)

    # --- dead letters -----------------------------------------------------------------------------

    dead_letters = verb(queue_calls.dead_letters)
    dead_letter = verb(queue_calls.dead_letter)
    redrive = verb(queue_calls.redrive)
    start_redrive = verb(queue_calls.start_redrive)
    redrives = verb(queue_calls.redrives)
    cancel_redrive = verb(queue_calls.cancel_redrive)
    purge_dead_letters = verb(queue_calls.purge_dead_letters)

    # --- sending ----------------------------------------------------------------------------------

    def send(self, call: Call[T], retries: Retries | None = None) -> T:
        """Carry out a call; repeats it where that is safe (see `goqueue.client.http.retries`)."""
        retries = retries or self._retries
        allowed = self._timeout + call.wait_seconds
        end = time.monotonic() + allowed
        repetitions = 0
        while True:
            asked = self.base_url
            try:
                return self._send_once(
                    call, asked, end - time.monotonic() if retries.within_timeout else allowed
                )
            except ClientError as error:
                self._addresses.note_failure(asked, error)
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

    def _send_once(self, call: Call[T], base_url: str, seconds: float) -> T:
        begun = time.monotonic()
        with self._pool.connection(call, seconds - call.wait_seconds) as http:
            left = seconds - (time.monotonic() - begun)
            with exchange.named_errors(base_url, left):
                response = http.request(**exchange.request_of(call, base_url, left))
        return exchange.result_of(call, response)
