"""`goqueue cluster rebalance|add|replace`: replicas are spread anew."""

from typing import TYPE_CHECKING, Annotated

from goqueue.cli.cells import Size
from goqueue.cli.commands.cluster.changes import NodeNumber
from goqueue.cli.commands.cluster.moves import Throttle, Wait, carry_on, throttle_of
from goqueue.cli.failures import UsageFailure
from goqueue.cli.output import for_people, show, show_table
from goqueue.model.options import option

if TYPE_CHECKING:
    from goqueue.api.balance import PlannedLoad, PlannedPartition, RebalanceResult
    from goqueue.client import Client

DryRun = Annotated[bool, option("Only show what would move.")]


def rebalance(
    client: "Client",
    dry_run: DryRun = False,
    without: Annotated[
        str | None,
        option("Move everything away from these nodes, to remove them.", metavar="NODE,…"),
    ] = None,
    throttle: Throttle = None,
    wait: Wait = False,
) -> None:
    """Spread replicas, leaders and bytes evenly over the nodes, with few moves.

    Replicas of a partition go to different machines and racks, if there are as many.
    """
    _carry_out(
        client,
        client.rebalance(
            dry_run=dry_run, without=_numbers(without), throttle_bytes_per_sec=throttle_of(throttle)
        ),
        wait=wait,
    )


def add(
    client: "Client",
    node: NodeNumber,
    dry_run: DryRun = False,
    throttle: Throttle = None,
    wait: Wait = False,
) -> None:
    """Give a new node its fair share of the replicas and leaders.

    Start the node first: it joins the cluster by itself, without data. Replicas move to this node
    only.
    """
    rate = throttle_of(throttle)
    found = client.rebalance(dry_run=dry_run, onto=node, throttle_bytes_per_sec=rate)
    _carry_out(client, found, wait=wait)


def replace(
    client: "Client",
    node: NodeNumber,
    with_node: Annotated[int, option("The node that takes its place.", "--with", metavar="NODE")],
    dry_run: DryRun = False,
    throttle: Throttle = None,
    wait: Wait = False,
) -> None:
    """Move all replicas of a node, which may be down, to another node.

    Afterwards the node can be removed: `goqueue cluster remove NODE`.
    """
    rate = throttle_of(throttle)
    found = client.rebalance(
        dry_run=dry_run, replace=node, replace_with=with_node, throttle_bytes_per_sec=rate
    )
    _carry_out(client, found, wait=wait)


def _numbers(text: str | None) -> list[int] | None:
    try:
        return None if text is None else [int(each) for each in text.split(",")]
    except ValueError:
        raise UsageFailure(f"--without {text}: write the numbers of nodes, as in 1,2") from None


def _carry_out(client: "Client", found: "RebalanceResult", *, wait: bool) -> None:
    if found.reassignment is not None and wait:
        carry_on(client, found.reassignment, wait=True)
        return
    if for_people():
        show_table(
            ("NODE", "REPLICAS", "LEADERS", "BYTES"), [_load_columns(each) for each in found.nodes]
        )
    show(
        found,
        ("TOPIC", "PARTITION", "FROM", "TO", "BYTES"),
        [_move_columns(each) for each in found.moves],
        empty="everything is where it should be",
    )


def _load_columns(load: "PlannedLoad") -> tuple[object, ...]:
    return (
        load.node_id,
        _change(load.replicas, load.new_replicas),
        _change(load.leaders, load.new_leaders),
        Size(load.new_bytes),
    )


def _change(before: int, after: int) -> str:
    return str(before) if before == after else f"{before} -> {after}"


def _move_columns(move: "PlannedPartition") -> tuple[object, ...]:
    before, after = (" ".join(map(str, each)) for each in (move.replicas, move.new_replicas))
    return move.topic, move.partition, before, after, Size(move.bytes)
