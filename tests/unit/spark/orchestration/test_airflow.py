"""The operator, with Airflow itself: needs apache-airflow beside this package."""

from pathlib import Path

import pytest

pytest.importorskip("airflow", reason="needs apache-airflow")

from goqueue.spark.orchestration.airflow import GoQueuePipelineOperator
from goqueue.spark.orchestration.pipeline_process import PipelineFailed
from tests.unit.spark.orchestration.fake_python import COPIES, FAILS, fake_python


def test_a_task_gives_the_rows_of_each_sink(tmp_path: Path):
    task = GoQueuePipelineOperator(
        task_id="orders", file="shop.yaml", python=fake_python(tmp_path, COPIES)
    )
    assert task.execute({}) == {"shop.out": 7}
    assert "file" in task.template_fields


def test_a_task_fails_with_its_pipeline(tmp_path: Path):
    task = GoQueuePipelineOperator(
        task_id="orders", file="shop.yaml", python=fake_python(tmp_path, FAILS)
    )
    with pytest.raises(PipelineFailed):
        task.execute({})
    task.on_kill()
