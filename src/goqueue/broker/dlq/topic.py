"""The topic of dead letters: made when the first one comes, with the partitions of its source."""

import contextlib
from collections.abc import Mapping
from typing import Final, Protocol

from goqueue.broker.cluster.other_nodes import OtherNodes
from goqueue.cluster import Topic
from goqueue.model.errors import InvalidReplication, TopicExists
from goqueue.model.settings import HOUR_MS, MESSAGE_BYTES_MAX

RETENTION_MS: Final = 336 * HOUR_MS
HISTORY_BYTES_MAX: Final = 64 * 1024  # room for our headers beside the largest message


class Services(Protocol):
    @property
    def others(self) -> OtherNodes | None: ...

    def topic(self, name: str) -> Topic: ...

    def has_topic(self, name: str) -> bool: ...

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        settings: Mapping[str, str] | None = None,
        may_look_alike: bool = False,
        replication_factor: int | None = None,
    ) -> Topic: ...

    async def add_partitions(self, name: str, count: int) -> Topic: ...


async def ensure_dead_letter_topic(
    services: Services, name: str, source: Topic, index: int
) -> Topic:
    """The topic, with the partition that is asked for."""
    if not services.has_topic(name):
        bytes_max = min(source.settings.max_message_bytes + HISTORY_BYTES_MAX, MESSAGE_BYTES_MAX)
        settings = {"retention.ms": str(RETENTION_MS), "max.message.bytes": str(bytes_max)}
        with contextlib.suppress(TopicExists):  # made by somebody else just now
            await _create(services, name, source, settings)
    if not services.topic(name).has_partition(index):
        await services.add_partitions(name, source.partitions)
    return services.topic(name)


async def _create(
    services: Services, name: str, source: Topic, settings: Mapping[str, str]
) -> None:
    """With as many replicas as its source has, or as there are nodes for."""
    others = services.others
    factor = None if others is None else others.replication_factor(source)
    count = source.partitions
    try:
        await services.create_topic(
            name,
            partitions=count,
            settings=settings,
            may_look_alike=True,
            replication_factor=factor,
        )
    except InvalidReplication:  # dead letters do not wait for a node that is gone
        await services.create_topic(name, partitions=count, settings=settings, may_look_alike=True)
