"""Topics as clients and operators change them: create, grow, configure, delete.

The node that decides about the metadata does it; any other one passes the request on to it.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol
from uuid import UUID

import structlog

from goqueue.broker.cluster.cluster_node import ClusterNode
from goqueue.broker.metadata.controller import Controller
from goqueue.broker.queues.service import Queues
from goqueue.broker.schedules.service import Schedules
from goqueue.broker.topic_changes import TopicChanges
from goqueue.cluster import Metadata, MetadataRecord, Topic, controller
from goqueue.model.config import Config
from goqueue.model.errors import PolicyViolation, TopicExists, TopicNotFound
from goqueue.model.ids import NodeId, TopicId
from goqueue.model.machine import Decision
from goqueue.model.names import is_internal, refuse_internal, topic_name
from goqueue.runtime import Environment

DecideTopic = Callable[[Metadata], Decision[MetadataRecord, Topic]]

_log = structlog.get_logger("goqueue.broker")


class TopicBroker(Protocol):
    """The broker whose topics these are."""

    config: Config
    environment: Environment
    cluster: ClusterNode
    queues: Queues
    schedules: Schedules

    @property
    def controller(self) -> Controller: ...


class TopicAdmin:
    def __init__(self, broker: TopicBroker, changes: TopicChanges) -> None:
        self._broker = broker
        self._changes = changes

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        settings: Mapping[str, str] | None = None,
        validate_only: bool = False,
        may_look_alike: bool = False,
        replication_factor: int | None = None,
        assignments: Sequence[Sequence[NodeId]] | None = None,
    ) -> Topic:
        """With `may_look_alike` also when its name differs from another's only by '.' and '_'.

        `assignments` are the nodes of each partition's replicas; without them they are chosen.
        """
        checked = topic_name(name)
        if is_internal(checked):
            raise PolicyViolation(f"{name!r}: names that start with __ are the broker's own")
        topics, environment = self._broker.config.topics, self._broker.environment
        count = topics.partitions if partitions is None else partitions
        default = topics.replication or None
        factor = default if replication_factor is None else replication_factor
        topic_id = TopicId(UUID(bytes=environment.random.bytes(16), version=4))
        elsewhere = self._broker.cluster.elsewhere
        if elsewhere is not None and not validate_only:
            return await elsewhere.create_topic(
                checked,
                partitions=partitions,
                settings=settings,
                may_look_alike=may_look_alike,
                replication_factor=replication_factor,
                assignments=assignments,
            )

        def decide(metadata: Metadata) -> Decision[MetadataRecord, Topic]:
            is_new = metadata.find(checked) is None
            if is_new and len(metadata.topics) >= topics.count_max:
                raise PolicyViolation(
                    f"{len(metadata.topics)} topics are there, and no more are allowed"
                    " (setting topics.count_max)"
                )
            return controller.create_topic(
                metadata,
                checked,
                topic_id=topic_id,
                partitions=count,
                settings=settings or {},
                now=environment.clock.now(),
                may_look_alike=may_look_alike,
                replication_factor=factor,
                assignments=assignments,
            )

        if validate_only:
            return await self._validate(decide)
        topic = await self._broker.controller.change(decide)
        await self._changes.tell_groups()
        _log.info("topic created", topic=name, partitions=count, settings=settings or {})
        return topic

    async def ensure_topic(self, name: str) -> Topic:
        """The topic; created with the defaults when missing and `topics.auto_create` allows it."""
        topic = self._broker.controller.metadata.find(name)
        if topic is not None:
            return topic
        checked = topic_name(name)
        if not self._broker.config.topics.auto_create or is_internal(checked):
            raise TopicNotFound(f"there is no topic {name!r}")
        with contextlib.suppress(TopicExists):  # made by somebody else just now
            return await self.create_topic(name)
        return self._broker.controller.metadata.topic(name)

    async def add_partitions(
        self,
        name: str,
        count: int,
        *,
        assignments: Sequence[Sequence[NodeId]] | None = None,
        validate_only: bool = False,
    ) -> Topic:
        """Grow the topic to `count` partitions in all; `assignments` are of the new ones."""
        refuse_internal(name)

        def decide(metadata: Metadata) -> Decision[MetadataRecord, Topic]:
            return controller.add_partitions(metadata, name, count, assignments)

        if validate_only:
            return await self._validate(decide)
        elsewhere = self._broker.cluster.elsewhere
        if elsewhere is not None:
            return await elsewhere.add_partitions(name, count, assignments)
        topic = await self._broker.controller.change(decide)
        await self._changes.tell_groups()
        _log.info("partitions added", topic=name, partitions=count)
        return topic

    async def change_settings(
        self,
        name: str,
        changes: Mapping[str, str | None],
        *,
        replace: bool = False,
        validate_only: bool = False,
    ) -> Topic:
        """Set or, with None, unset topic settings; with `replace` the others are unset too."""
        refuse_internal(name)

        def decide(metadata: Metadata) -> Decision[MetadataRecord, Topic]:
            return controller.change_settings(metadata, name, changes, replace=replace)

        if validate_only:
            return await self._validate(decide)
        elsewhere = self._broker.cluster.elsewhere
        if elsewhere is not None:
            return await elsewhere.change_settings(name, changes, replace=replace)
        topic = await self._broker.controller.change(decide)
        self._broker.queues.retry_dead_letters()
        self._broker.schedules.publisher.retry()
        _log.info("settings changed", topic=name, settings=topic.overrides)
        return topic

    async def delete_topic(self, name: str) -> Topic:
        """Gone for clients when this returns; the files go in the background."""
        refuse_internal(name)
        elsewhere = self._broker.cluster.elsewhere
        if elsewhere is not None:
            return await elsewhere.delete_topic(name)
        topic = await self._broker.controller.change(
            lambda metadata: controller.delete_topic(metadata, name)
        )
        await self._changes.tell_deleted(topic)
        await self._changes.tell_groups()
        await self._changes.delete_data(topic)
        _log.info("topic deleted", topic=name)
        return topic

    async def _validate(self, decide: DecideTopic) -> Topic:
        """What would be decided; raises what it would be refused with."""
        if self._broker.cluster.elsewhere is not None:
            return decide(self._broker.controller.metadata).reply
        return await self._broker.controller.host.read(lambda metadata: decide(metadata).reply)
