"""An operator for Airflow: a declared pipeline processes what is there.

    from goqueue.spark.orchestration.airflow import GoQueuePipelineOperator

    GoQueuePipelineOperator(task_id="orders", file="/etc/goqueue/pipelines/orders.yaml")

Each run goes on from the checkpoint, so a task may be retried and cleared at will: every row is
written exactly once.  Two runs at a time would take each other's checkpoint for their own, so give
the DAG `max_active_runs=1`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from goqueue.spark.orchestration.pipeline_process import PipelineProcess
from goqueue.spark.runtime.progress import Progress

try:
    from airflow.sdk import BaseOperator
except ImportError:  # Airflow 2
    from airflow.models import BaseOperator


class GoQueuePipelineOperator(BaseOperator):  # type: ignore[misc]  # it need not be installed
    """Gives the number of rows that each sink got, as its XCom."""

    template_fields: ClassVar[Sequence[str]] = ("file", "bootstrap", "settings", "environment")

    def __init__(
        self,
        *,
        file: str,
        bootstrap: str | None = None,
        settings: Mapping[str, str] | None = None,
        python: str | None = None,
        environment: Mapping[str, str] | None = None,
        **named: Any,
    ) -> None:
        super().__init__(**named)
        self.file = file
        self.bootstrap = bootstrap
        self.settings = dict(settings or {})
        self.python = python
        self.environment = dict(environment or {})
        self._process: PipelineProcess | None = None

    def execute(self, context: Any) -> dict[str, int]:
        self._process = PipelineProcess(
            self.file,
            bootstrap=self.bootstrap,
            settings=self.settings,
            python=self.python,
            environment=self.environment,
        )
        return {each.name: each.rows for each in self._process.run(self._tell)}

    def on_kill(self) -> None:
        if self._process is not None:
            self._process.stop()

    def _tell(self, progress: Progress) -> None:
        self.log.info("%s: %s, %s rows", progress.name, progress.state, progress.rows)
