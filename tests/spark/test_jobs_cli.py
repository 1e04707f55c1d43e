"""The jobs at the command line, each a process of its own."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from goqueue.client import Client, Message
from goqueue.client.kafka import KafkaClient
from tests.spark import as_installed

Pipeline = Callable[..., Any]
JOB_S = 300.0


@pytest.fixture
def http(client: KafkaClient) -> Iterator[Client]:
    with Client(client.http_url()) as http:
        yield http


@pytest.fixture
def pipeline(http: Client, broker: str, tmp_path: Path) -> Pipeline:
    """`pipeline("report", topic)` gives what the command printed."""
    environment = as_installed.environment(tmp_path / "site")

    def run(*arguments: str) -> Any:
        command = (sys.executable, "-P", "-m", "goqueue", "--server", http.base_url, "pipeline")
        done = subprocess.run(
            (*command, *arguments, "--bootstrap", broker, "--master", "local[1]"),
            env=environment,
            capture_output=True,
            timeout=JOB_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)

    return run


@pytest.mark.slow
def test_journeys_are_tables(
    pipeline: Pipeline, http: Client, names: Iterator[str], tmp_path: Path
):
    topic = next(names)
    http.create_topic(topic, partitions=1)
    http.publish(topic, [Message("x")])
    answer = pipeline("journeys", topic, "--since", "-1h", "--out", str(tmp_path / "j"))
    assert "publish.received" in [row["event"] for row in answer["steps"]]
    assert (tmp_path / "j/steps.parquet").exists()


def test_a_report_is_a_page_and_tables(
    pipeline: Pipeline, http: Client, names: Iterator[str], tmp_path: Path
):
    topic = next(names)
    http.create_topic(topic, partitions=1)
    http.publish(topic, [Message(str(number), key="k") for number in range(50)])
    answer = pipeline("report", topic, "--out", str(tmp_path / "r"), "--sla", "1s")
    assert answer["topics"][topic]["messages"] == 50
    assert topic in Path(answer["page"]).read_text()
    assert (tmp_path / "r" / "timeline.parquet").exists()


@pytest.mark.slow
def test_dead_letters_are_shown_and_driven_back(
    pipeline: Pipeline, http: Client, names: Iterator[str]
):
    topic = next(names)
    http.create_topic(topic, partitions=1)
    http.publish(topic, [Message(str(number)) for number in range(4)])
    http.reject(*http.receive(topic, "workers", max_messages=4), reason="no good")
    (row,) = pipeline("dlq", "triage", topic)
    assert (row["reason"], row["error"], row["letters"]) == ("rejected", "no good", 4)
    where = ("--where", "value in ('1', '2')")
    planned = pipeline("dlq", "redrive", topic, *where, "--dry-run")
    assert (planned["picked"], planned["moved"]) == (2, 0)
    done = pipeline("dlq", "redrive", topic, *where)
    assert (done["picked"], done["moved"]) == (2, 2)
    back = http.receive(topic, "workers", max_messages=4)
    assert sorted(each.value or b"" for each in back) == [b"1", b"2"]


@pytest.mark.slow
def test_a_topic_is_compacted(pipeline: Pipeline, http: Client, names: Iterator[str]):
    topic = next(names)
    http.create_topic(topic, partitions=1, settings={"cleanup.policy": "compact"})
    http.publish(topic, [Message(str(number), key=f"k{number % 2}") for number in range(10)])
    (done,) = pipeline("compact", topic)
    assert (done["result"]["records_before"], done["result"]["records_after"]) == (10, 2)
    assert [each.value for each in http.read(topic)] == [b"8", b"9"]
