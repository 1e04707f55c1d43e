"""What is set for groups and nodes.  Whoever reads the settings has checked them."""

from collections.abc import Mapping

from goqueue.cluster.metadata import (
    ConfigChanged,
    GroupConfigsTakenOver,
    Metadata,
    MetadataRecord,
    merge_settings,
)
from goqueue.cluster.throttles import ALL_NODES, REASSIGNMENT_RATE
from goqueue.model.ids import GroupId
from goqueue.model.machine import Decision

Changes = Mapping[str, str | None]  # None unsets


def change_group_config(
    metadata: Metadata, group_id: GroupId, changes: Changes, if_set: Mapping[str, str] | None = None
) -> Decision[MetadataRecord, None]:
    """`if_set` goes before `changes`, for what has been set before."""
    before = metadata.group_configs.get(group_id, {})
    again = {name: value for name, value in (if_set or {}).items() if name in before}
    configs = merge_settings(before, {**changes, **again})
    records = () if configs == before else (ConfigChanged("group", group_id, configs),)
    return Decision(records, None)


def change_broker_config(
    metadata: Metadata, node: str, changes: Changes
) -> Decision[MetadataRecord, None]:
    """Of one node by its id, or of all of them by an empty text."""
    before = metadata.broker_configs.get(node, {})
    configs = merge_settings(before, changes)
    records = () if configs == before else (ConfigChanged("broker", node, configs),)
    return Decision(records, None)


def end_reassignment_throttle(metadata: Metadata) -> Decision[MetadataRecord, bool]:
    """The throttle of moves is for those under way; gives whether one was ended."""
    is_set = REASSIGNMENT_RATE in metadata.broker_configs.get(ALL_NODES, {})
    if not is_set or any(state.adding or state.removing for _, _, state in metadata.partitions):
        return Decision((), False)
    changed = change_broker_config(metadata, ALL_NODES, {REASSIGNMENT_RATE: None})
    return Decision(changed.records, True)


def take_over_group_configs(
    metadata: Metadata, configs: Mapping[GroupId, Mapping[str, str]]
) -> Decision[MetadataRecord, None]:
    """Of logs that kept settings themselves; only the first time, for they do not change."""
    if metadata.group_configs_taken_over or not configs:
        return Decision((), None)
    taken = {group_id: dict(each) for group_id, each in configs.items()}
    return Decision((GroupConfigsTakenOver(taken),), None)
