"""The service as a job: what `goqueue pipeline serve` runs in its session."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.client.errors import ClientError
from goqueue.model.config import Address
from goqueue.spark.runtime.job_runner import Runner
from goqueue.spark.service.board import TopicBoard
from goqueue.spark.service.files import Declarations, Folder, Together
from goqueue.spark.service.metrics import serve_metrics
from goqueue.spark.service.news import News
from goqueue.spark.service.running import Starter
from goqueue.spark.service.service import QUERIES_MAX, Clock, PipelineService
from goqueue.spark.service.tables import TableOptions, TopicTables
from goqueue.spark.service.upkeep import Upkeep
from goqueue.spark.service.webhooks import Webhooks

if TYPE_CHECKING:
    from goqueue.client import Client

STEP_SECONDS: Final = 1.0


class CannotListen(ClientError):
    """Something else has the address, or this machine does not."""


class ServeOptions(msgspec.Struct, frozen=True):
    folder: Path
    bootstrap: str
    tables: TableOptions | None = None
    """Where topics are kept as tables whose settings ask for it."""
    upkeep_seconds: float = 3600.0
    metrics: Address | None = None
    queries_max: int = QUERIES_MAX
    """How many are live at a time."""


def serve(
    running: Runner, client: "Client", options: ServeOptions, say: Callable[[str], None]
) -> None:
    """Until somebody asks to stop."""
    board, clock = TopicBoard(client), Clock()
    board.make_topics()
    start = Starter(running.spark, options.bootstrap).start
    webhooks, news = Webhooks(), News()
    declared = _declarations(client, options, clock)
    service = PipelineService(
        declared,
        start,
        board,
        clock,
        webhooks.send,
        look_for_news=news.look,
        queries_max=options.queries_max,
    )
    service.load()
    upkeep = Upkeep(
        running.spark,
        options.upkeep_seconds,
        lambda name, text: service.note(name, "upkeep", text),
    )
    with _metrics(service, options.metrics):
        say(f"serving the pipelines of {options.folder}; `goqueue pipeline list` shows them")
        try:
            while not running.stop.wait(STEP_SECONDS):
                service.step()
                upkeep.run_if_due(service.running(), clock.steady())
        finally:
            upkeep.close()
            service.close()
            webhooks.close()
            news.close()


def _declarations(client: "Client", options: ServeOptions, clock: Clock) -> Declarations:
    files = Folder(options.folder, os.environ)
    if options.tables is None:
        return files
    return Together(TopicTables(client.topics, options.tables, options.folder, clock.steady), files)


@contextlib.contextmanager
def _metrics(service: PipelineService, address: Address | None) -> Iterator[None]:
    if address is None:
        yield
        return
    try:
        server = serve_metrics(service.standings, address.host, address.port)
    except OSError as error:
        raise CannotListen(
            f"no metrics at {address}: {error.strerror}; choose another with --metrics"
        ) from error
    try:
        yield
    finally:
        server.shutdown()
