"""`goqueue cluster reassign`: replicas move to other nodes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from goqueue.cli.cells import Size
from goqueue.cli.commands.cluster.changes import fail_if
from goqueue.cli.commands.cluster.copies import wait_for_moves
from goqueue.cli.failures import ExitCode, Failure, UsageFailure
from goqueue.cli.output import show
from goqueue.model.options import option
from goqueue.model.sizes import parse_size

if TYPE_CHECKING:
    from goqueue.api.cluster import MovingPartition, PartitionMove, ReassignmentStatus
    from goqueue.client import Client

Throttle = Annotated[
    str | None,
    option(
        "Limit of copying, in bytes a second for each node, such as 10MB; `none` for no limit."
        " [10MiB]",
        metavar="RATE",
    ),
]
Wait = Annotated[bool, option("Wait until all moves are done, and show their progress.")]


def reassign(
    client: "Client",
    topic: Annotated[str | None, option("Topic to move.", metavar="TOPIC")] = None,
    partition: Annotated[int | None, option("Only this partition of it.", min=0)] = None,
    to: Annotated[
        str | None,
        option("Nodes of its replicas; the first is the preferred leader.", metavar="NODE,NODE,…"),
    ] = None,
    cancel: Annotated[bool, option("Cancel moves: those of the topic, or all of them.")] = False,
    file: Annotated[
        Path | None,
        option("Moves as JSON, as kafka-reassign-partitions.sh has them.", metavar="FILE"),
    ] = None,
    throttle: Throttle = None,
    status: Annotated[bool, option("List the moves in progress. [default]")] = False,
    wait: Wait = False,
) -> None:
    """Move replicas to other nodes; without options, list the moves in progress.

    New replicas copy the data; once they are in sync, the old ones are removed. Each partition's
    leader measures the progress and the rate.
    """
    moves = _moves_of(file) if file is not None else []
    if topic is not None:
        moves += _moves_of_topic(client, topic, partition, to, cancel=cancel)
    elif to is not None or partition is not None:
        raise UsageFailure("--to and --partition need a --topic")
    if status and (moves or cancel or throttle is not None):
        raise UsageFailure("--status only looks: leave it out to move replicas")
    if moves or throttle is not None:
        found = client.reassign(moves, throttle_of(throttle))
    else:
        found = client.cancel_reassignments() if cancel else client.reassignments()
    carry_on(client, found, wait=wait)


def carry_on(client: "Client", found: "ReassignmentStatus", *, wait: bool) -> None:
    """Show what was begun, or wait for its end."""
    failed = sum(each.state == "failed" for each in found.partitions)
    if wait and not failed:
        wait_for_moves(client, found)
        return
    show(
        found,
        (
            "TOPIC",
            "PARTITION",
            "STATE",
            "REPLICAS",
            "ADDING",
            "REMOVING",
            "LEFT",
            "RATE",
            "PROBLEM",
        ),
        [_columns(each) for each in found.partitions],
        drop=("RATE", "REMOVING", "ADDING"),
        empty="nothing moves",
    )
    fail_if(failed, "could not be moved")


def throttle_of(text: str | None) -> int | None:
    """0 is no limit; None: nothing was said."""
    if text is None:
        return None
    if text == "none":
        return 0
    try:
        found = parse_size(text.removesuffix("/s"))
    except ValueError as error:
        raise UsageFailure(f"--throttle: {error}; or none") from None
    if not found:
        raise UsageFailure("--throttle 0 would move nothing: say none for no limit")
    return found


def _columns(moving: "MovingPartition") -> tuple[object, ...]:
    return (
        moving.topic,
        moving.partition,
        moving.state,
        _numbers(moving.replicas),
        _numbers(moving.adding),
        _numbers(moving.removing),
        Size(sum(each.bytes_left for each in moving.copies)),
        Size(int(sum(each.bytes_per_sec for each in moving.copies))),
        moving.error or "-",
    )


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
    moving = [each for each in places.partitions if each.adding or each.removing]
    chosen = moving if cancel else places.partitions
    if not chosen:
        raise Failure(f"no partition of topic {topic!r} moves", ExitCode.NOT_FOUND)
    return [PartitionMove(topic, each.partition, replicas) for each in chosen]


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
