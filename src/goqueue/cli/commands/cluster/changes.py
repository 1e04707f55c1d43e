"""`goqueue cluster drain|undrain|remove|elect`: nodes that are emptied or go, and other leaders."""

from typing import TYPE_CHECKING, Annotated

from goqueue.cli.confirming import Force, confirm
from goqueue.cli.failures import Failure, UsageFailure
from goqueue.cli.output import rows_of, show, show_text
from goqueue.model.options import argument, option

if TYPE_CHECKING:
    from goqueue.client import Client

NodeNumber = Annotated[int, argument("Number of the node.", metavar="NODE")]


def drain(client: "Client", node: NodeNumber) -> None:
    """Move all leaders away from a node, before it is stopped.

    It keeps its replicas, and leads again after `undrain` or a restart.
    """
    found = client.drain_node(node)
    left = f", but still leads {found.leaders} that nobody else can" if found.leaders else ""
    show_text(found, f"node {node} is {found.state}{left}")


def undrain(client: "Client", node: NodeNumber) -> None:
    """Let a drained node lead again."""
    found = client.undrain_node(node)
    show_text(found, f"node {node} is {found.state}")


def remove(client: "Client", node: NodeNumber, force: Force = False) -> None:
    """Remove a node for good.

    Move its replicas away first: `goqueue cluster rebalance --without NODE`. Its number is not
    used again.
    """
    confirm(f"Remove node {node} for good?", "remove it", force=force)
    client.remove_node(node)
    show_text({"node_id": node, "removed": True}, f"node {node} is removed")


def elect(
    client: "Client",
    topic: Annotated[str | None, option("Only this topic.", metavar="TOPIC")] = None,
    partition: Annotated[int | None, option("Only this partition.", min=0)] = None,
    unclean: Annotated[
        bool, option("Where no in-sync replica is alive, elect one that is not in sync.")
    ] = False,
    i_accept_loss: Annotated[
        bool, option("With --unclean: messages that the elected replica lacks are lost.")
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
    fail_if(sum(bool(each.error) for each in found.results), "could not be given a leader")


def fail_if(count: int, text: str) -> None:
    if count:
        raise Failure(f"{count} partition{'s' if count > 1 else ''} {text}")
