"""A pipeline as a process: its progress, its failure, its end."""

import threading
from pathlib import Path

import pytest

from goqueue.spark.orchestration.pipeline_process import PipelineFailed, PipelineProcess
from goqueue.spark.runtime.progress import Progress
from tests.unit.spark.orchestration.fake_python import COPIES, FAILS, HANGS, fake_python


def test_progress_is_told_and_the_last_of_each_sink_is_given(tmp_path: Path):
    seen: list[int] = []
    process = PipelineProcess(
        "shop.yaml",
        bootstrap="queue:9092",
        settings={"spark.driver.memory": "4g"},
        python=fake_python(tmp_path, COPIES),
    )
    assert process.run(lambda each: seen.append(each.rows)) == [
        Progress("shop.out", "finished", rows=7)
    ]
    assert seen == [3, 7]
    assert (tmp_path / "arguments").read_text() == (
        "-m goqueue pipeline run shop.yaml --once --output json --bootstrap queue:9092"
        " --set spark.driver.memory=4g\n"
    )


def test_a_failure_has_the_commands_own_words(tmp_path: Path):
    with pytest.raises(PipelineFailed, match="there is no topic orders"):
        PipelineProcess("shop.yaml", python=fake_python(tmp_path, FAILS)).run()


def test_stopping_ends_it_and_all_that_it_started(tmp_path: Path, eventually):
    process = PipelineProcess("shop.yaml", python=fake_python(tmp_path, HANGS))
    failures: list[BaseException] = []

    def run() -> None:
        try:
            process.run()
        except PipelineFailed as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    eventually((tmp_path / "arguments").exists)
    process.stop()
    thread.join(30)
    assert not thread.is_alive()
    assert len(failures) == 1


def test_stopping_what_never_ran_does_nothing():
    PipelineProcess("shop.yaml").stop()
