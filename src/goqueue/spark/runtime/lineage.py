"""OpenLineage events of streaming queries: start, every minute of running, end or failure.

On where OpenLineage's own variables say so (`OPENLINEAGE_URL`, `OPENLINEAGE_CONFIG`), with its own
client, which sends events by HTTP, to Kafka, to a file or to the console (`goqueue[lineage]`).  A
thread of its own sends: a lineage server that hangs or is away holds up no query.
"""

import atexit
import contextlib
import logging
import os
import queue
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import pyspark
from pyspark.sql.streaming.listener import StreamingQueryListener

from goqueue._version import __version__
from goqueue.client.errors import ClientError
from goqueue.spark.pipelines.lineage import Dataset, Lineage

ASKED_BY: Final = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG")
NAMESPACE_VARIABLE: Final = "OPENLINEAGE_NAMESPACE"
NAMESPACE: Final = "goqueue"
PRODUCER: Final = f"https://pypi.org/project/goqueue/{__version__}"
WAITING_MAX: Final = 10_000
RUNNING_SECONDS: Final = 60.0
CLOSE_SECONDS: Final = 10.0
MESSAGE_CHARACTERS_MAX: Final = 2_000

log = logging.getLogger(__name__)


class NoLineageClient(ClientError):
    """The variables ask for OpenLineage, and its client is not installed."""


def is_wanted(environment: Mapping[str, str]) -> bool:
    return any(environment.get(each) for each in ASKED_BY)


def lineage_of_session(spark: Any) -> "LineageListener | None":
    """The session's listener; None where nobody asked for one."""
    if not is_wanted(os.environ):
        return None
    found: LineageListener | None = getattr(spark, "_goqueue_lineage", None)
    if found is None:
        found = LineageListener(_client())
        spark.streams.addListener(found)
        spark._goqueue_lineage = found
        atexit.register(found.close)
    return found


def _client() -> Any:
    try:
        from openlineage.client import OpenLineageClient
    except ImportError as error:
        raise NoLineageClient(
            f"{' or '.join(ASKED_BY)} is set: pip install 'goqueue[lineage]', or unset it"
        ) from error
    return OpenLineageClient()


class LineageListener(StreamingQueryListener):
    def __init__(self, client: Any) -> None:
        self._client = client
        self._declared: dict[str, Lineage] = {}
        self._runs: dict[str, str] = {}  # of a run that is under way: the query's name
        self._told: dict[str, float] = {}
        self._waiting: queue.Queue[Any] = queue.Queue(WAITING_MAX)
        self._thread = threading.Thread(target=self._send, name="lineage", daemon=True)
        self._thread.start()

    def declare(self, query: str, lineage: Lineage) -> None:
        """Before the query starts; others are left alone."""
        self._declared[query] = lineage

    def close(self) -> None:
        """What is waiting is sent, if that takes no longer than some seconds."""
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(None)
        self._thread.join(CLOSE_SECONDS)

    # --- what Spark tells -------------------------------------------------------------------------

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        if event.name in self._declared:
            self._runs[str(event.runId)] = event.name
            self._tell("START", str(event.runId))

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        run = str(event.progress.runId)
        if time.monotonic() - self._told.get(run, 0.0) >= RUNNING_SECONDS:
            self._tell("RUNNING", run)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        run, problem = str(event.runId), event.exception
        self._tell("COMPLETE" if problem is None else "FAIL", run, problem)
        self._runs.pop(run, None)
        self._told.pop(run, None)

    # --- what is sent -----------------------------------------------------------------------------

    def _tell(self, state: str, run: str, problem: str | None = None) -> None:
        query = self._runs.get(run)
        if query is None:
            return
        self._told[run] = time.monotonic()
        event = make_event(state, query, run, self._declared[query], problem)
        with contextlib.suppress(queue.Full):  # a lineage server that is away for hours
            self._waiting.put_nowait(event)

    def _send(self) -> None:
        while (event := self._waiting.get()) is not None:
            try:
                self._client.emit(event)
            except Exception as error:  # whatever its transports raise
                log.warning("a lineage event could not be sent: %s", error)


def make_event(
    state: str, query: str, run: str, lineage: Lineage, problem: str | None = None
) -> Any:
    """OpenLineage's own object."""
    from openlineage.client import event_v2
    from openlineage.client.facet_v2 import error_message_run, job_type_job, processing_engine_run

    run_facets: dict[str, Any] = {
        "processing_engine": processing_engine_run.ProcessingEngineRunFacet(
            version=pyspark.__version__, name="spark", openlineageAdapterVersion=__version__
        )
    }
    if problem is not None:
        run_facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
            message=problem[:MESSAGE_CHARACTERS_MAX], programmingLanguage="PYTHON"
        )
    job_facets: dict[str, Any] = {
        "jobType": job_type_job.JobTypeJobFacet(
            processingType="STREAMING", integration="GOQUEUE", jobType="QUERY"
        )
    }
    return event_v2.RunEvent(
        eventTime=datetime.now(UTC).isoformat(),
        eventType=event_v2.RunState[state],
        run=event_v2.Run(runId=run, facets=run_facets),
        job=event_v2.Job(
            namespace=os.environ.get(NAMESPACE_VARIABLE, NAMESPACE), name=query, facets=job_facets
        ),
        inputs=[_dataset(event_v2.InputDataset, each) for each in lineage.inputs],
        outputs=[_dataset(event_v2.OutputDataset, each) for each in lineage.outputs],
        producer=PRODUCER,
    )


def _dataset(kind: Any, dataset: Dataset) -> Any:
    from openlineage.client.facet_v2 import schema_dataset

    fields = [
        schema_dataset.SchemaDatasetFacetFields(name=name, type=type)
        for name, type in dataset.columns
    ]
    facets = {"schema": schema_dataset.SchemaDatasetFacet(fields=fields)} if fields else {}
    return kind(namespace=dataset.namespace, name=dataset.name, facets=facets)
