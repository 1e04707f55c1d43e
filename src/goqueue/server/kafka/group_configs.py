"""Settings of share groups by Kafka's names; they are settings of the queue group.

What Kafka has no name for (backoff, ordering, priorities) is left as it is.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from goqueue.broker import Broker
from goqueue.broker.share_members import DEFAULTS
from goqueue.model.errors import InvalidRequest, InvalidSetting
from goqueue.model.ids import GroupId
from goqueue.queue import QueueSettings
from goqueue.server.kafka.config_entries import Entry, Source, Synonym, ValueType
from goqueue.server.kafka.group_names import named_group

_FIELDS: Final = {
    "share.auto.offset.reset": "start",
    "share.record.lock.duration.ms": "visibility_ms",
    "share.delivery.count.limit": "max_failures",
}
_MEANINGS: Final = {
    "share.auto.offset.reset": "Where the group begins in a partition that is new to it.",
    "share.record.lock.duration.ms": "How long a consumer has for a record.",
    "share.delivery.count.limit": "Failed deliveries after which a record is a dead letter.",
}


def group_entries(broker: Broker, name: str) -> list[Entry]:
    """Of a group that may not be there yet: those that it would begin with."""
    settings = _settings(broker, named_group(name))
    return [_entry(setting, settings) for setting in _FIELDS]


def _settings(broker: Broker, group_id: GroupId) -> QueueSettings:
    group = broker.queues.machine.groups.get(group_id)
    return DEFAULTS if group is None else group.settings


def _entry(name: str, settings: QueueSettings) -> Entry:
    value, default = (str(getattr(each, _FIELDS[name])) for each in (settings, DEFAULTS))
    layers: tuple[Synonym, ...] = (Synonym(f"group.{name}", default, Source.DEFAULT),)
    if value != default:
        layers = (Synonym(name, value, Source.GROUP), *layers)
    return Entry(
        name=name,
        value=value,
        source=layers[0].source,
        type=ValueType.STRING if name == "share.auto.offset.reset" else ValueType.INT,
        synonyms=layers,
        documentation=_MEANINGS[name],
    )


async def change_group(
    broker: Broker,
    name: str,
    changes: Mapping[str, str | None],
    *,
    replace: bool = False,
    validate_only: bool = False,
) -> None:
    """Set, or with None unset; with `replace` the others are unset too."""
    group_id = named_group(name)
    unset: dict[str, str | None] = dict.fromkeys(_FIELDS) if replace else {}
    fields = dict(_parsed(setting, value) for setting, value in (unset | dict(changes)).items())
    changed = msgspec.structs.replace(_settings(broker, group_id), **fields)
    changed.check()
    if not validate_only:
        await broker.queues.configure(group_id, changed)


def _parsed(name: str, value: str | None) -> tuple[str, Any]:
    field = _FIELDS.get(name)
    if field is None:
        raise InvalidRequest(f"a group has no setting {name!r}; it has {', '.join(_FIELDS)}")
    if value is None:
        return field, getattr(DEFAULTS, field)
    if field == "start":
        if value not in ("earliest", "latest"):
            raise InvalidSetting(f"{name}={value!r}: must be earliest or latest")
        return field, value
    try:
        return field, int(value)
    except ValueError as error:
        raise InvalidSetting(f"{name}={value!r}: must be a number") from error
