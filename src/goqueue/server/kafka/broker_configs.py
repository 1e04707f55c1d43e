"""Settings of nodes that change while they run: Kafka's throttles of replication, and our own.

They are kept in the metadata, for one node or (with an empty name) for all of them.
"""

from collections.abc import Mapping
from typing import Final

from goqueue.broker import Broker
from goqueue.cluster.throttles import (
    ALL_NODES,
    broker_setting_meanings,
    check_broker_setting,
)
from goqueue.model.errors import InvalidRequest
from goqueue.server.kafka.config_entries import Entry, Source, Synonym, ValueType

NO_LIMIT: Final = str(2**63 - 1)  # Kafka's default of a rate

Changes = Mapping[str, str | None]


def dynamic_entries(broker: Broker, node: str) -> list[Entry]:
    """Of one node, by its number as text; of all of them only what is set."""
    return [
        Entry(
            name=name,
            value=layers[0].value,
            source=layers[0].source,
            type=ValueType.LONG,
            synonyms=layers,
            documentation=meaning,
        )
        for name, meaning in broker_setting_meanings().items()
        if (layers := _layers(broker, node, name))
    ]


def _layers(broker: Broker, node: str, name: str) -> tuple[Synonym, ...]:
    configs = broker.metadata.broker_configs
    own, common = configs.get(node, {}).get(name), configs.get(ALL_NODES, {}).get(name)
    layers = []
    if node != ALL_NODES and own is not None:
        layers.append(Synonym(name, own, Source.DYNAMIC_BROKER))
    if common is not None:
        layers.append(Synonym(name, common, Source.DYNAMIC_DEFAULT_BROKER))
    if node != ALL_NODES:
        layers.append(Synonym(name, NO_LIMIT, Source.DEFAULT))
    return tuple(layers)


async def change_broker(
    broker: Broker,
    node: str,
    changes: Changes,
    *,
    replace: bool = False,
    validate_only: bool = False,
) -> None:
    """Raises `InvalidSetting` or `InvalidRequest`; None unsets, also what was never set."""
    known = {str(each.node_id) for each in broker.metadata.nodes.members}
    if node != ALL_NODES and node not in known:
        raise InvalidRequest(f"there is no node {node!r}; there are {', '.join(sorted(known))}")
    checked = {
        name: None if text is None else check_broker_setting(name, text)
        for name, text in changes.items()
    }
    if replace:
        before = broker.metadata.broker_configs.get(node, {})
        checked = dict.fromkeys(before) | checked
    if not validate_only:
        await broker.change_broker_config(node, checked)
