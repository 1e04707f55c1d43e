"""`goqueue cluster`: the nodes, who leads what, how the cluster is doing, and changes of that."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from goqueue.cli.command import command
from goqueue.cli.confirming import Force, confirm
from goqueue.cli.failures import ExitCode, Failure, UsageFailure
from goqueue.cli.output import rows_of, show, show_facts, show_text
from goqueue.model.options import argument, option

if TYPE_CHECKING:
    from goqueue.api.cluster import (
        ClusterHealthBody,
        ClusterNode,
        PartitionMove,
        PartitionPlace,
        TopicPlaces,
    )
    from goqueue.client import Client

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Show the nodes and where partitions are; move leaders and replicas.",
)

EXIT_CODES = {"healthy": 0, "under_replicated": 2, "offline": 3}


@command(app, "status")
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


@command(app, "nodes")
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


@command(app, "topics")
def topics(client: "Client") -> None:
    """List topics: replication factor, min.insync.replicas, partitions with too few replicas."""
    found = client.topic_places()
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


def _under_replicated(topic: "TopicPlaces") -> int:
    return sum(len(each.isr) < len(each.replicas) - len(each.adding) for each in topic.partitions)


def _offline(topic: "TopicPlaces") -> int:
    return sum(each.leader is None for each in topic.partitions)


@command(app, "leaders")
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


@command(app, "quorum")
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


# --- changes --------------------------------------------------------------------------------------

NodeNumber = Annotated[int, argument("Number of the node.", metavar="NODE")]


@command(app, "drain")
def drain(client: "Client", node: NodeNumber) -> None:
    """Have other nodes lead what this one leads, before it is stopped.

    It keeps its replicas, and leads again after `undrain` or a restart.
    """
    found = client.drain_node(node)
    left = f", but still leads {found.leaders} that nobody else can" if found.leaders else ""
    show_text(found, f"node {node} is {found.state}{left}")


@command(app, "undrain")
def undrain(client: "Client", node: NodeNumber) -> None:
    """Let a node lead again that was drained."""
    found = client.undrain_node(node)
    show_text(found, f"node {node} is {found.state}")


@command(app, "remove")
def remove(client: "Client", node: NodeNumber, force: Force = False) -> None:
    """Remove a node for good.

    It must have no replicas any more: see `reassign`. Its number is not used again.
    """
    confirm(f"Remove node {node} for good?", "remove it", force=force)
    client.remove_node(node)
    show_text({"node_id": node, "removed": True}, f"node {node} is removed")


@command(app, "elect")
def elect(
    client: "Client",
    topic: Annotated[str | None, option("Only this topic.", metavar="TOPIC")] = None,
    partition: Annotated[int | None, option("Only this partition.", min=0)] = None,
    unclean: Annotated[
        bool, option("Elect replicas that are not in sync, where no other answers.")
    ] = False,
    i_accept_loss: Annotated[
        bool, option("With --unclean: what those replicas do not have is lost.")
    ] = False,
) -> None:
    """Give partitions to their preferred leaders, the first of their replicas."""
    if unclean and not i_accept_loss:
        raise UsageFailure(
            "--unclean loses what the elected replica does not have: say --i-accept-loss, too"
        )
    found = client.elect_leaders(topic, partition, allow_unclean=unclean)
    show(
        found,
        ("TOPIC", "PARTITION", "LEADER", "PROBLEM"),
        rows_of(
            found.results,
            *("topic", "partition", lambda each: "none" if each.leader is None else each.leader),
            lambda each: each.error or "-",
        ),
        empty="no partition needed an election",
    )
    _fail_if(sum(bool(each.error) for each in found.results), "could not be given a leader")


@command(app, "reassign")
def reassign(
    client: "Client",
    topic: Annotated[str | None, option("Topic to move.", metavar="TOPIC")] = None,
    partition: Annotated[int | None, option("Only this partition of it.", min=0)] = None,
    to: Annotated[
        str | None, option("Its new nodes, the preferred leader first.", metavar="NODE,NODE,…")
    ] = None,
    cancel: Annotated[bool, option("Cancel the move of the topic instead.")] = False,
    file: Annotated[
        Path | None,
        option("Moves as JSON, as kafka-reassign-partitions.sh has them.", metavar="FILE"),
    ] = None,
) -> None:
    """Move replicas to other nodes; without options, list those that move.

    Replicas are added and copy what is there; then the others go. `goqueue cluster status` counts
    what still moves.
    """
    moves = _moves_of(file) if file is not None else []
    if topic is not None:
        moves += _moves_of_topic(client, topic, partition, to, cancel=cancel)
    elif to is not None or cancel or partition is not None:
        raise UsageFailure("--to, --partition and --cancel are of a --topic")
    found = client.reassign(moves) if moves else client.reassignments()
    show(
        found,
        ("TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING", "PROBLEM"),
        rows_of(
            found.partitions,
            *("topic", "partition", lambda each: _numbers(each.replicas)),
            *(lambda each: _numbers(each.adding), lambda each: _numbers(each.removing)),
            lambda each: each.error or "-",
        ),
        empty="nothing moves",
    )
    _fail_if(sum(bool(each.error) for each in found.partitions), "could not be moved")


def _moves_of_topic(
    client: "Client", topic: str, partition: int | None, to: str | None, *, cancel: bool
) -> "list[PartitionMove]":
    from goqueue.api.cluster import PartitionMove

    if (to is None) is not cancel:
        raise UsageFailure("say where the topic goes (--to 1,2,3), or --cancel")
    try:
        replicas = None if to is None else [int(each) for each in to.split(",")]
    except ValueError:
        raise UsageFailure(f"--to {to}: write the numbers of nodes, as in 1,2,3") from None
    if partition is not None:
        return [PartitionMove(topic, partition, replicas)]
    places = next((each for each in client.topic_places() if each.name == topic), None)
    if places is None:
        raise Failure(f"there is no topic {topic!r}", ExitCode.NOT_FOUND)
    return [PartitionMove(topic, each.partition, replicas) for each in places.partitions]


class _KafkaMove(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    replicas: list[int]


class _KafkaMoves(msgspec.Struct, frozen=True):
    partitions: list[_KafkaMove]


def _moves_of(file: Path) -> "list[PartitionMove]":
    from goqueue.api.cluster import PartitionMove

    try:
        found = msgspec.json.decode(file.read_bytes(), type=_KafkaMoves)
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageFailure(f"{file}: {error}") from error
    return [PartitionMove(each.topic, each.partition, each.replicas) for each in found.partitions]


def _numbers(nodes: list[int]) -> str:
    return " ".join(map(str, nodes)) or "-"


def _fail_if(count: int, text: str) -> None:
    if count:
        raise Failure(f"{count} partition{'s' if count > 1 else ''} {text}")
