"""The screen of `goqueue top`: nodes, topics and groups, one table above the other."""

from typing import TYPE_CHECKING, Final

from goqueue.cli.cells import size
from goqueue.cli.output import table
from goqueue.cli.timelines import short_duration
from goqueue.cli.top_figures import GroupFigures, NodeFigures, TopFigures, TopicFigures

if TYPE_CHECKING:
    from rich.console import RenderableType

NODES: Final = (
    *("NODE", "STATE", "IN/S", "OUT/S", "IN", "OUT", "CPU", "MEMORY", "CONNECTIONS", "LEADERS"),
    "LOOP P99",
)
TOPICS: Final = ("TOPIC", "IN/S", "OUT/S", "IN", "PUBLISH P99", "DELAYED", "DEAD")
GROUPS: Final = (
    *("GROUP", "TOPIC", "LAG", "OLDEST", "IN FLIGHT", "ACKS/S", "RETRIES/S", "END TO END P99"),
)


def draw(figures: TopFigures) -> "RenderableType":
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [
        _heading(figures),
        table(NODES, [_node(each) for each in figures.nodes], drop=("LEADERS", "CONNECTIONS")),
        Text(),
        table(TOPICS, [_topic(each) for each in figures.topics], drop=("DELAYED",)),
        Text(),
        table(GROUPS, [_group(each) for each in figures.groups], drop=("RETRIES/S",)),
    ]
    if figures.missing_nodes:
        names = ", ".join(map(str, figures.missing_nodes))
        parts.append(Text(f"nodes that do not answer: {names}", style="red"))
    return Group(*parts)


def _heading(figures: TopFigures) -> "RenderableType":
    from rich.text import Text

    into = sum(each.published_per_second for each in figures.nodes)
    out = sum(each.consumed_per_second for each in figures.nodes)
    text = Text("goqueue top  ", style="bold")
    text.append(f"{figures.at[11:19]} UTC  ", style="dim")
    text.append(f"{number(into)} messages/s in, {number(out)} out")
    return text


def _node(node: NodeFigures) -> list[object]:
    return [
        node.node,
        node.state,
        number(node.published_per_second),
        number(node.consumed_per_second),
        f"{size(int(node.bytes_in_per_second))}/s",
        f"{size(int(node.bytes_out_per_second))}/s",
        f"{node.cpu * 100:.0f}%",
        size(node.memory_bytes),
        node.connections,
        node.leaders,
        duration(node.loop_lag_p99_seconds),
    ]


def _topic(topic: TopicFigures) -> list[object]:
    return [
        topic.topic,
        number(topic.published_per_second),
        number(topic.consumed_per_second),
        f"{size(int(topic.bytes_in_per_second))}/s",
        duration(topic.publish_p99_seconds),
        topic.delayed,
        topic.dead_letters,
    ]


def _group(group: GroupFigures) -> list[object]:
    return [
        group.group,
        group.topic,
        group.lag,
        duration(group.oldest_seconds or None),
        group.in_flight,
        number(group.acked_per_second),
        number(group.retried_per_second),
        duration(group.end_to_end_p99_seconds),
    ]


def number(rate: float) -> str:
    """With about three digits."""
    return f"{rate:,.0f}" if rate >= 10 or rate == 0 else f"{rate:.1f}"


def duration(seconds: float | None) -> str:
    return "-" if seconds is None else short_duration(seconds * 1e6)
