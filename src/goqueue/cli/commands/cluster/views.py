"""`goqueue cluster status|nodes|topics|leaders|quorum|coordinators`: how the cluster is doing."""

from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.cells import Size
from goqueue.cli.output import for_people, rows_of, show, show_facts, show_table
from goqueue.model.options import option

if TYPE_CHECKING:
    from goqueue.api.cluster import (
        ClusterHealthBody,
        ClusterNode,
        CoordinatorBody,
        PartitionPlace,
        TopicPlaces,
    )
    from goqueue.client import Client

EXIT_CODES = {"healthy": 0, "under_replicated": 2, "offline": 3}


def status(client: "Client") -> None:
    """Show the health of the cluster.

    Exit codes: 0 healthy; 2 under-replicated, a replica is not in sync; 3 offline, a partition has
    no leader.
    """
    state = client.cluster_state()
    health = state.health
    show_facts(
        state,
        [
            ("status", health.status.replace("_", "-")),
            ("cluster", state.cluster_id),
            ("controller", "unknown" if state.controller_id is None else state.controller_id),
            ("nodes", f"{health.active_nodes} of {health.nodes} active"),
            ("topics", health.topics),
            ("partitions", health.partitions),
            *_troubles(health),
        ],
    )
    if EXIT_CODES[health.status]:
        raise typer.Exit(EXIT_CODES[health.status])


def _troubles(health: "ClusterHealthBody") -> list[tuple[str, object]]:
    """Those that there are."""
    found = {
        "under-replicated": health.under_replicated,
        "too few in sync": health.under_min_isr,
        "offline": health.offline,
        "not at preferred leader": health.not_preferred,
        "reassigning": health.reassigning,
    }
    return [(name, count) for name, count in found.items() if count]


def nodes(client: "Client") -> None:
    """List the nodes."""
    found = client.cluster_nodes()
    show(
        found,
        ("NODE", "STATE", "CONTROLLER", "KAFKA", "HTTP", "LEADERS", "REPLICAS", "RACK", "MACHINE"),
        rows_of(
            found,
            *("node_id", "state"),
            *(_is_controller, lambda node: _address(node, "kafka")),
            *(lambda node: _address(node, "http"), "leaders", "replicas"),
            *(lambda node: node.rack or "-", lambda node: node.machine or "-"),
        ),
        drop=("MACHINE", "RACK", "HTTP", "CONTROLLER"),
    )


def _is_controller(node: "ClusterNode") -> str:
    return "yes" if node.is_controller else "-"


def _address(node: "ClusterNode", listener: str) -> str:
    return node.addresses.get(listener, "-")


def topics(
    client: "Client",
    sizes: Annotated[bool, option("Also show the size of each topic on each node.")] = False,
) -> None:
    """List topics: replication factor, min.insync.replicas, partitions with too few replicas."""
    found = client.topic_places(sizes=sizes)
    if sizes and for_people():
        _show_sizes(found)
        return
    show(
        found,
        ("TOPIC", "PARTITIONS", "REPLICATION", "MIN ISR", "UNDER-REPLICATED", "OFFLINE"),
        rows_of(
            found,
            *("name", lambda topic: len(topic.partitions)),
            *("replication_factor", "min_insync_replicas"),
            *(_under_replicated, _offline),
        ),
        drop=("MIN ISR",),
        empty="no topics yet: goqueue topic create NAME",
    )


def _show_sizes(found: "list[TopicPlaces]") -> None:
    """A column for each node."""
    nodes = sorted(
        {int(node) for topic in found for each in topic.partitions for node in each.sizes}
    )
    show_table(
        ("TOPIC", "PARTITION", *(f"NODE {node}" for node in nodes)),
        [
            (topic.name, each.partition, *(Size(each.sizes.get(str(node))) for node in nodes))
            for topic in found
            for each in topic.partitions
        ],
        empty="no topics yet: goqueue topic create NAME",
    )


def _under_replicated(topic: "TopicPlaces") -> int:
    return sum(len(each.isr) < len(each.replicas) - len(each.adding) for each in topic.partitions)


def _offline(topic: "TopicPlaces") -> int:
    return sum(each.leader is None for each in topic.partitions)


def leaders(client: "Client") -> None:
    """List partitions: leader, preferred leader, replicas and in-sync replicas (ISR)."""
    found = client.topic_places()
    show(
        found,
        ("TOPIC", "PARTITION", "LEADER", "PREFERRED", "EPOCH", "REPLICAS", "ISR"),
        [(topic.name, *_leadership_columns(each)) for topic in found for each in topic.partitions],
        drop=("EPOCH", "PREFERRED"),
        empty="no topics yet: goqueue topic create NAME",
    )


def _leadership_columns(place: "PartitionPlace") -> tuple[object, ...]:
    return (
        place.partition,
        "none" if place.leader is None else str(place.leader),
        str(place.replicas[0]),
        place.leader_epoch,
        " ".join(map(str, place.replicas)),
        " ".join(map(str, place.isr)) or "-",
    )


def coordinators(client: "Client") -> None:
    """List which node coordinates each shard of groups and transactions, and who can take over."""
    found = client.coordinators()
    show(
        found,
        ("KIND", "SHARD", "NODE", "EPOCH", "REPLICAS", "ISR", "SIZE"),
        [_coordinator_columns(each) for each in found],
        drop=("EPOCH",),
        empty="nothing is coordinated",
    )


def _coordinator_columns(each: "CoordinatorBody") -> tuple[object, ...]:
    return (
        each.kind,
        each.shard,
        "none" if each.node_id is None else str(each.node_id),
        each.epoch,
        " ".join(map(str, each.replicas)),
        " ".join(map(str, each.isr)) or "-",
        "-" if each.size is None else each.size,
    )


def quorum(client: "Client") -> None:
    """Show where the cluster's metadata is stored, and which nodes vote on it."""
    found = client.cluster_quorum()
    members = ", ".join(
        f"{each.name}{' (leader)' if each.is_leader else ''}{_problem(each.problem)}"
        for each in found.members
    )
    show_facts(
        found,
        [
            ("log", found.log),
            (
                "controller",
                "none" if found.controller_id is None else f"node {found.controller_id}",
            ),
            ("decides here", "yes" if found.is_controller else "no"),
            ("term", found.term),
            ("committed", f"{found.committed_offset} of {found.end_offset}"),
            ("members", members),
        ],
    )


def _problem(text: str) -> str:
    return f": {text}" if text else ""
