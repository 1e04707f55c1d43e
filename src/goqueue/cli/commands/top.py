"""`goqueue top`: what goes on now, on all nodes."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from goqueue.cli.command import command
from goqueue.cli.output import for_people, is_terminal, line
from goqueue.cli.samples import Samples
from goqueue.cli.session import Session
from goqueue.cli.top_figures import (
    NodeFigures,
    TopFigures,
    group_figures,
    node_figures,
    topic_figures,
)
from goqueue.model.options import Notation, option

if TYPE_CHECKING:
    from goqueue.api.cluster import ClusterNode
    from goqueue.client import Client

NODE_TIMEOUT_SECONDS: Final = 5.0
NODES_AT_ONCE: Final = 8
WIDTH_ELSEWHERE: Final = 200  # columns, where no terminal has a width
ROWS: Final = 15  # of topics, and of groups

app = typer.Typer(add_completion=False)


class Scraper:
    """Asks every node for its numbers, and compares them with those of the time before."""

    def __init__(self, session: Session, client: "Client", rows: int) -> None:
        self._session = session
        self._client = client
        self._rows = rows
        self._before: dict[int, Samples] = {}
        self._before_at = 0.0

    def look(self) -> TopFigures:
        nodes = self._client.cluster_nodes()
        at, after = time.monotonic(), self._scrape(nodes)
        before, seconds = self._before, at - self._before_at
        self._before, self._before_at = after, at
        return TopFigures(
            datetime.now(UTC).isoformat(timespec="milliseconds"),
            round(seconds, 3),
            [_node(node, before, after, seconds) for node in nodes],
            topic_figures(before, after, seconds, self._rows),
            group_figures(before, after, seconds, self._rows),
            [node.node_id for node in nodes if node.node_id not in after],
        )

    def _scrape(self, nodes: "list[ClusterNode]") -> dict[int, Samples]:
        if len(nodes) == 1:
            return {nodes[0].node_id: Samples(self._client.metrics())}
        with ThreadPoolExecutor(NODES_AT_ONCE) as threads:
            texts = list(threads.map(self._ask, nodes))
        return {
            node.node_id: Samples(text)
            for node, text in zip(nodes, texts, strict=True)
            if text is not None
        }

    def _ask(self, node: "ClusterNode") -> str | None:
        """None when it does not answer."""
        from goqueue.client import Client
        from goqueue.client.errors import ClientError

        address = node.addresses.get("http")
        if address is None:
            return None
        target = self._session.target()
        scheme = target.server.partition("://")[0]
        options = {**target.options(), "timeout": NODE_TIMEOUT_SECONDS}
        try:
            with Client(f"{scheme}://{address}", retries=0, **options) as client:
                return client.metrics()
        except ClientError:
            return None


def _node(
    node: "ClusterNode", before: dict[int, Samples], after: dict[int, Samples], seconds: float
) -> NodeFigures:
    samples = after.get(node.node_id)
    if samples is None:
        return NodeFigures(node.node_id, "no answer" if node.state == "active" else node.state)
    earlier = before.get(node.node_id, Samples())
    return node_figures(node.node_id, node.state, earlier, samples, seconds)


@command(app)
def top(
    session: Session,
    client: "Client",
    interval: Annotated[
        int, option("Time between two looks: 2s, 500ms.", "-i"), Notation.DURATION
    ] = 2_000,
    count: Annotated[int | None, option("Stop after so many looks.", "-n", min=1)] = None,
    rows: Annotated[int, option("Most topics and groups to show.", min=1, max=1_000)] = ROWS,
) -> None:
    """Show rates, lag, work in flight and the slowest groups, of all nodes, as they change.

    The busiest topics and the slowest groups come first.  In a pipe each look is a line of JSON.
    """
    scraper, seconds = Scraper(session, client, rows), interval / 1000
    scraper.look()  # rates need two looks
    time.sleep(seconds)
    if for_people():
        _draw(scraper, seconds, count)
        return
    while count is None or count > 0:
        sys.stdout.write(line(scraper.look()))
        sys.stdout.flush()
        count = None if count is None else count - 1
        if count != 0:
            time.sleep(seconds)


def _draw(scraper: Scraper, seconds: float, count: int | None) -> None:
    from rich.console import Console
    from rich.live import Live

    from goqueue.cli.top_screen import draw

    console = Console(width=None if is_terminal() else WIDTH_ELSEWHERE)
    is_full = count is None and is_terminal()
    view = draw(scraper.look())
    with Live(view, console=console, auto_refresh=False, screen=is_full) as live:
        while count is None or count > 1:
            time.sleep(seconds)
            live.update(draw(scraper.look()), refresh=True)
            count = None if count is None else count - 1
