"""The dispatchers of all queue groups.  A group gets one when it is first used, and a new one when
it was deleted and is used again."""

from collections.abc import Iterable
from typing import Final

from goqueue.broker.queues.dispatcher import Dispatcher
from goqueue.broker.queues.state import QueueState
from goqueue.model.ids import GroupId
from goqueue.runtime import Clock

IDLE_SECONDS: Final = 10.0  # after which loaded records are let go


class Dispatchers:
    def __init__(self, clock: Clock, state: QueueState) -> None:
        self._clock = clock
        self._state = state
        self._made: dict[GroupId, Dispatcher] = {}

    def get(self, group_id: GroupId) -> Dispatcher:
        """Raises `QueueGroupNotFound`."""
        group = self._state.group(group_id)
        dispatcher = self._made.get(group_id)
        if dispatcher is None or dispatcher.group is not group:
            dispatcher = self._made[group_id] = Dispatcher(self._clock, group)
        return dispatcher

    def forget(self, group_id: GroupId) -> None:
        self._made.pop(group_id, None)

    def forget_consumer(self, group_id: GroupId, consumer: str) -> None:
        """The consumer has left: it is not at work unless it asks again."""
        dispatcher = self._made.get(group_id)
        if dispatcher is not None:
            dispatcher.consumers.forget(consumer)

    def evict_idle(self) -> None:
        """Let go of what groups have loaded that nobody asked for lately."""
        latest = self._clock.instant() - IDLE_SECONDS * 1e9
        for dispatcher in self._made.values():
            if dispatcher.is_idle and dispatcher.used_at < latest:
                dispatcher.evict()

    # --- news: nobody has to be told of a group that has no dispatcher ----------------------------

    def notify_one(self, group_id: GroupId) -> None:
        """There may be a message for one of the group's consumers."""
        dispatcher = self._made.get(group_id)
        if dispatcher is not None:
            dispatcher.notify_one()

    def notify_room(self, group_id: GroupId) -> None:
        """Messages were finished: somebody may wait for room, or for their keys."""
        dispatcher = self._made.get(group_id)
        if dispatcher is not None:
            dispatcher.notify_room()

    def notify_all(self, group_ids: Iterable[GroupId] | None = None) -> None:
        """Everybody is to look, of these groups or of all: the broker stops, or leads no more."""
        for group_id in list(self._made) if group_ids is None else group_ids:
            if group_id in self._made:
                self._made[group_id].notify_all()
