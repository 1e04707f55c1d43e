"""Settings of groups by Kafka's names, in two families.

`share.*` are settings of the queue group; what Kafka has no name for (backoff, ordering,
priorities) is left as it is.  `consumer.*` are settings of the consumer group.  A group may have
both before it is there: its first member decides what it is.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from goqueue.broker import Broker
from goqueue.broker.queues.members import SHARE_DEFAULTS
from goqueue.groups import UNSET, GroupSettings
from goqueue.model.durations import parse_duration_ms
from goqueue.model.errors import InvalidRequest, InvalidSetting
from goqueue.model.ids import GroupId
from goqueue.queue import QueueSettings
from goqueue.server.kafka.config_entries import Entry, Source, Synonym, ValueType
from goqueue.server.kafka.group_names import named_group


class _Setting(msgspec.Struct, frozen=True):
    """One setting: the field that keeps it, and the values that it may have."""

    field: str
    meaning: str
    choices: tuple[str, ...] = ()  # none: a whole number above 0

    def parse(self, name: str, text: str) -> Any:
        if self.choices:
            if text not in self.choices:
                raise InvalidSetting(f"{name}={text!r}: must be {' or '.join(self.choices)}")
            return text
        if name.endswith(".ms"):
            return self._milliseconds(name, text)
        if not (text.isascii() and text.isdigit() and int(text) > 0):
            raise InvalidSetting(f"{name}={text!r}: must be a number above 0")
        return int(text)

    def _milliseconds(self, name: str, text: str) -> int:
        try:
            found = parse_duration_ms(text)
        except ValueError as error:
            raise InvalidSetting(f"{name}: {error}") from error
        if found == 0:
            raise InvalidSetting(f"{name}={text!r}: must be above 0")
        return found


_SHARE: Final = {  # fields of QueueSettings
    "share.auto.offset.reset": _Setting(
        "start",
        "Start position in a partition that is new to the group.",
        ("earliest", "latest"),
    ),
    "share.record.lock.duration.ms": _Setting(
        "visibility_ms",
        "Visibility time-out: a record that is not acknowledged in this time is redelivered.",
    ),
    "share.delivery.count.limit": _Setting(
        "max_deliveries", "Deliveries after which a record is dead-lettered."
    ),
    "share.isolation.level": _Setting(
        "isolation",
        "Whether records of open and aborted transactions are delivered, too.",
        ("read_committed", "read_uncommitted"),
    ),
    "share.session.timeout.ms": _Setting(
        "session_timeout_ms", "A share consumer without a heartbeat for this long times out."
    ),
    "share.heartbeat.interval.ms": _Setting(
        "heartbeat_interval_ms", "Heartbeat interval of share consumers."
    ),
}
_CONSUMER: Final = {  # fields of GroupSettings, and of the server's GroupsConfig
    "consumer.session.timeout.ms": _Setting(
        "session_timeout_ms",
        "A member of the consumer protocol without a heartbeat for this long times out.",
    ),
    "consumer.heartbeat.interval.ms": _Setting(
        "heartbeat_interval_ms",
        "Heartbeat interval of members of the consumer protocol. By default it is shorter in"
        " small groups.",
    ),
}
_ALL: Final = {**_SHARE, **_CONSUMER}

Changes = Mapping[str, str | None]
SettingsT = TypeVar("SettingsT", QueueSettings, GroupSettings)


# --- looked at --------------------------------------------------------------------------------


def group_entries(broker: Broker, name: str) -> list[Entry]:
    """Of a group that may not be there yet: those that it would begin with."""
    group_id = named_group(name)
    share, consumer = _share_settings(broker, group_id), _consumer(broker, group_id)
    entries = []
    for name, setting in _SHARE.items():
        default = getattr(SHARE_DEFAULTS, setting.field)
        if not default:
            default = getattr(broker.config.groups, setting.field)
        entries.append(_entry(name, setting, getattr(share, setting.field), default))
    for name, setting in _CONSUMER.items():
        default = getattr(broker.config.groups, setting.field)
        entries.append(_entry(name, setting, getattr(consumer, setting.field), default))
    return entries


def _share_settings(broker: Broker, group_id: GroupId) -> QueueSettings:
    return broker.queues.settings(group_id) if broker.queues.is_known(group_id) else SHARE_DEFAULTS


def _consumer(broker: Broker, group_id: GroupId) -> GroupSettings:
    return broker.group_configs.consumer_settings(group_id)


def _entry(name: str, setting: _Setting, value: object, default: object) -> Entry:
    """`value` is None, 0, or the default, where nothing is set."""
    layers: tuple[Synonym, ...] = (Synonym(f"group.{name}", str(default), Source.DEFAULT),)
    if value and value != default:
        layers = (Synonym(name, str(value), Source.GROUP), *layers)
    return Entry(
        name=name,
        value=layers[0].value,
        source=layers[0].source,
        type=ValueType.STRING if setting.choices else ValueType.INT,
        synonyms=layers,
        documentation=setting.meaning,
    )


# --- changed ----------------------------------------------------------------------------------


async def change_group(
    broker: Broker,
    name: str,
    changes: Changes,
    *,
    replace: bool = False,
    validate_only: bool = False,
) -> None:
    """Set, or with None unset; with `replace` the others are unset too."""
    group_id = named_group(name)
    unknown = sorted(changes.keys() - _ALL.keys())
    if unknown:
        raise InvalidRequest(
            f"a group has no setting {', '.join(unknown)}; it has {', '.join(_ALL)}"
        )
    unset: dict[str, str | None] = dict.fromkeys(_ALL) if replace else {}
    wanted = unset | dict(changes)
    share = _change(_share_settings(broker, group_id), _SHARE, wanted, SHARE_DEFAULTS)
    broker.queues.check(share)
    consumer = _change(_consumer(broker, group_id), _CONSUMER, wanted, UNSET)
    consumer.check(broker.config.groups)
    if validate_only:
        return
    if wanted.keys() & _SHARE.keys():
        await broker.queues.configure(group_id, share)
    if wanted.keys() & _CONSUMER.keys():
        await broker.group_configs.set_consumer_settings(group_id, consumer)


def _change(
    settings: SettingsT, family: Mapping[str, _Setting], wanted: Changes, defaults: SettingsT
) -> SettingsT:
    """What one family of settings is afterwards; all of the family that is not named stays."""
    fields = {}
    for name, text in wanted.items():
        setting = family.get(name)
        if setting is not None:
            unset = getattr(defaults, setting.field)
            fields[setting.field] = unset if text is None else setting.parse(name, text)
    return msgspec.structs.replace(settings, **fields)
