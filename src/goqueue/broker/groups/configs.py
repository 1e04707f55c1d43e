"""Settings of groups: stored as text under Kafka's names in the metadata, and decoded here.

    share.*, goqueue.*   settings of a queue group: `QueueSettings`
    consumer.*           sessions and heartbeats of the consumer protocol: `GroupSettings`

Settings may be there before the group is: its first member decides which of them count.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from goqueue.broker.image import Image
from goqueue.broker.machine_host import MachineHost
from goqueue.cluster import Metadata, controller
from goqueue.groups import UNSET, GroupMachine, GroupSettings
from goqueue.model.ids import GroupId
from goqueue.queue import QueueRegistry, QueueSettings

_KAFKA_NAMES: Final = {
    "start": "share.auto.offset.reset",
    "visibility_ms": "share.record.lock.duration.ms",
    "max_deliveries": "share.delivery.count.limit",
    "isolation": "share.isolation.level",
    "session_timeout_ms": "share.session.timeout.ms",
    "heartbeat_interval_ms": "share.heartbeat.interval.ms",
}
_QUEUE: Final = {  # fields of QueueSettings, and their names in the metadata
    field: _KAFKA_NAMES.get(field, f"goqueue.{field.replace('_', '.')}")
    for field in QueueSettings.__struct_fields__
}
_CONSUMER: Final = {
    "session_timeout_ms": "consumer.session.timeout.ms",
    "heartbeat_interval_ms": "consumer.heartbeat.interval.ms",
}
_DURABILITY: Final = _QUEUE["delivery_durability"]
_DEFAULTS: Final = QueueSettings()
_UNSET_QUEUE: Final[dict[str, str | None]] = dict.fromkeys(_QUEUE.values())

Texts = Mapping[str, str]
Change = Callable[[GroupId, Mapping[str, str | None], Texts], Awaitable[None]]
_NO_TEXTS: Final[Texts] = {}


class GroupConfigs:
    """Made before the metadata is replayed, so that its users can be made too."""

    def __init__(self) -> None:
        self._change_config: Change | None = None
        self._image: Image[Metadata] | None = None
        self._queue: dict[GroupId, tuple[Texts, QueueSettings]] = {}  # what came of which texts

    def attach(self, image: Image[Metadata], change: Change) -> None:
        """`change` is the controller's `change_group_config`, wherever that is."""
        self._image = image
        self._change_config = change

    # --- asking -----------------------------------------------------------------------------------

    def groups(self) -> Iterable[GroupId]:
        """Those for which something is set."""
        return self._metadata.group_configs

    def has_queue_settings(self, group_id: GroupId) -> bool:
        return not self._texts(group_id).keys().isdisjoint(_UNSET_QUEUE)

    def has_async_deliveries(self) -> bool:
        """Whether some group does not wait for the sync of its deliveries, or did not once."""
        return any(_DURABILITY in texts for texts in self._metadata.group_configs.values())

    def queue_settings(self, group_id: GroupId) -> QueueSettings:
        """The same object until they change."""
        texts = self._metadata.group_configs.get(group_id)
        if texts is None:
            return _DEFAULTS
        known = self._queue.get(group_id)
        if known is None or known[0] is not texts:
            known = self._queue[group_id] = texts, _parse_queue(texts)
        return known[1]

    def consumer_settings(self, group_id: GroupId) -> GroupSettings:
        texts = self._texts(group_id)
        given = {field: texts[name] for field, name in _CONSUMER.items() if name in texts}
        return msgspec.convert(given, GroupSettings, strict=False) if given else UNSET

    def share_settings(self, group_id: GroupId) -> GroupSettings:
        """Sessions and heartbeats of share consumers."""
        found = self.queue_settings(group_id)
        return GroupSettings(found.session_timeout_ms or None, found.heartbeat_interval_ms or None)

    # --- changing: whoever calls has checked them -------------------------------------------------

    async def set_queue_settings(self, group_id: GroupId, settings: QueueSettings) -> None:
        # A restart must know that the durability was another one.
        if_set = {_DURABILITY: settings.delivery_durability}
        await self._change(group_id, {**_UNSET_QUEUE, **_queue_texts(settings)}, if_set)

    async def unset_queue_settings(self, group_id: GroupId) -> None:
        await self._change(group_id, _UNSET_QUEUE)

    async def set_consumer_settings(self, group_id: GroupId, settings: GroupSettings) -> None:
        await self._change(group_id, {**dict.fromkeys(_CONSUMER.values()), **_texts_of(settings)})

    async def take_over(
        self, host: MachineHost[Metadata], groups: GroupMachine, queues: QueueRegistry
    ) -> None:
        """The settings that the logs of groups and queues kept, when they did; once."""
        found: dict[GroupId, Texts] = {
            group_id: _texts_of(settings)
            for group_id, settings in groups.take_former_settings().items()
            if settings != UNSET
        }
        for group_id, settings in queues.take_former_settings().items():
            if settings != _DEFAULTS:
                found[group_id] = {**found.get(group_id, _NO_TEXTS), **_queue_texts(settings)}
        await host.submit_or_defer(
            lambda metadata: controller.take_over_group_configs(metadata, found)
        )

    async def _change(
        self, group_id: GroupId, changes: Mapping[str, str | None], if_set: Texts = _NO_TEXTS
    ) -> None:
        assert self._change_config is not None, "the broker is not open"
        await self._change_config(group_id, changes, if_set)

    @property
    def _metadata(self) -> Metadata:
        assert self._image is not None, "the broker is not open"
        return self._image.current

    def _texts(self, group_id: GroupId) -> Texts:
        return self._metadata.group_configs.get(group_id, _NO_TEXTS)


def _queue_texts(settings: QueueSettings) -> dict[str, str]:
    """What differs from the defaults; `max_deliveries` always: its default is another one for
    groups that share consumers create."""
    return {
        name: _text(getattr(settings, field))
        for field, name in _QUEUE.items()
        if field == "max_deliveries" or getattr(settings, field) != getattr(_DEFAULTS, field)
    }


def _parse_queue(texts: Texts) -> QueueSettings:
    given: dict[str, Any] = {f: texts[name] for f, name in _QUEUE.items() if name in texts}
    if "weights" in given:
        given["weights"] = given["weights"].split(",")
    return msgspec.convert(given, QueueSettings, strict=False)


def _texts_of(settings: GroupSettings) -> dict[str, str]:
    values = {name: getattr(settings, field) for field, name in _CONSUMER.items()}
    return {name: _text(value) for name, value in values.items() if value is not None}


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
