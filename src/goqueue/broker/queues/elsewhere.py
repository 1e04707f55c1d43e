"""What is a queue group's, not a partition's, and has to be done at all nodes that lead some of it.

A consumer that is gone holds messages at several leaders, and a group that is deleted has states
there.  Nodes that are not reached are left out: at one that is cut off, a visibility time-out
releases what the consumer holds.
"""

import asyncio
from collections.abc import Mapping
from typing import Protocol

import structlog

from goqueue.broker.cluster.other_nodes import OtherNodes, Verb
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import GroupId, NodeId

_log = structlog.get_logger("goqueue.queues")


class RemoveConsumer(Verb[int], frozen=True):
    """Take back what the consumer holds here; gives how many messages."""

    name = "remove_consumer"
    reply_type = int

    group_id: GroupId
    consumer: str
    failed: bool
    deliveries_max: int | None


class ForgetGroup(Verb[bool], frozen=True):
    name = "forget_queue_group"
    reply_type = bool

    group_id: GroupId


class QueuesHere(Protocol):
    @property
    def groups(self) -> Mapping[GroupId, object]: ...

    async def remove_consumer_here(
        self, group_id: GroupId, consumer: str, *, failed: bool, deliveries_max: int | None
    ) -> int: ...

    async def forget_here(self, group_id: GroupId) -> None: ...


class Begun(Protocol):
    def forget(self, group_id: GroupId, /) -> None: ...


class QueuesElsewhere:
    def __init__(self, others: OtherNodes, queues: QueuesHere, begun: Begun) -> None:
        """`begun` knows where groups have begun."""
        self._others = others
        self._queues = queues
        self._begun = begun
        self._tasks: asyncio.TaskGroup | None = None

    def attach(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks

    def serve(self) -> None:
        self._others.serve(RemoveConsumer, self._remove_consumer_here)
        self._others.serve(ForgetGroup, self._forget_here)

    # --- asking -----------------------------------------------------------------------------------

    async def remove_consumer(self, verb: RemoveConsumer) -> int:
        """Gives how many messages the other nodes took back."""
        return sum(await asyncio.gather(*(self._ask(node_id, verb) for node_id in self._nodes())))

    def release_consumer(self, verb: RemoveConsumer) -> None:
        """The same, without waiting for it."""
        if self._tasks is not None:
            for node_id in self._nodes():
                self._tasks.create_task(self._ask(node_id, verb))

    async def forget(self, group_id: GroupId) -> None:
        """Raises when a node is not reached: the group would live on there."""
        self._begun.forget(group_id)
        for node_id in self._nodes():
            await self._others.ask(node_id, ForgetGroup(group_id))

    def _nodes(self) -> list[NodeId]:
        return self._others.live

    async def _ask(self, node_id: NodeId, verb: RemoveConsumer) -> int:
        try:
            return await self._others.ask(node_id, verb)
        except GoQueueError as error:  # their time will run out
            _log.warning("messages of a lost consumer not released", problem=str(error))
            return 0

    # --- serving ----------------------------------------------------------------------------------

    async def _remove_consumer_here(self, _: NodeId, verb: RemoveConsumer) -> int:
        if verb.group_id not in self._queues.groups:
            return 0
        return await self._queues.remove_consumer_here(
            verb.group_id,
            verb.consumer,
            failed=verb.failed,
            deliveries_max=verb.deliveries_max,
        )

    async def _forget_here(self, _: NodeId, verb: ForgetGroup) -> bool:
        self._begun.forget(verb.group_id)
        await self._queues.forget_here(verb.group_id)
        return True
