"""`goqueue pipeline` in a process of its own: killed, told to stop, asked."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from goqueue.client import Client

COMMAND = "from goqueue.cli.main import main; main()"
STOP_S = 300.0
ROWS = 300
ROWS_A_BATCH = 100

PIPELINE = """
name: kills
trigger: 200ms
sources:
  orders:
    topic: {topic}
    schema: id bigint, store string, at timestamp
    watermark: {{column: at, delay: 1 hour}}
    max_messages: {rows_a_batch}
steps:
  per_minute: |
    select window.start as minute, store, count(*) as orders
    from orders group by window(at, '1 minute'), store
  doubled: select id * 2 as twice from orders
sinks:
  totals: {{topic: {topic}.totals, from: per_minute, key: "concat(store, minute)", mode: update}}
  doubled: {{topic: {topic}.doubled, from: doubled, key: twice}}
"""


@contextlib.contextmanager
def started(*arguments: str) -> "Iterator[subprocess.Popen[str]]":
    """A command in a process group of its own; nothing of it is left behind."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", COMMAND, "pipeline", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def reports(process: "subprocess.Popen[str]") -> Iterator[dict]:
    assert process.stdout is not None
    for line in process.stdout:
        yield json.loads(line)
    assert process.stderr is not None
    pytest.fail(f"it ended: {process.stderr.read()}")


@pytest.fixture
def http(client) -> Iterator[Client]:
    with Client(client.http_url()) as found:
        yield found


def test_killed_and_told_to_stop_it_goes_on_and_every_row_is_there_once(
    broker, http, fill, make_topic, tmp_path: Path
):
    topic = make_topic(2)
    make_topic(2, f"{topic}.totals")
    make_topic(2, f"{topic}.doubled")
    orders = [
        json.dumps({"id": each, "store": f"s{each % 3}", "at": f"2026-01-01T00:0{each % 5}:00Z"})
        for each in range(ROWS)
    ]
    fill(topic, 0, orders[: ROWS // 2])
    fill(topic, 1, orders[ROWS // 2 :])
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE.format(topic=topic, rows_a_batch=ROWS_A_BATCH))

    with started("run", str(file), "--bootstrap", broker, "--output", "json") as process:
        under_way: set[str] = set()
        for report in reports(process):
            if report.get("rows", 0) >= ROWS_A_BATCH:
                under_way.add(report["name"])
            if len(under_way) == 2:
                break
        os.killpg(process.pid, signal.SIGKILL)

    with started("run", str(file), "--bootstrap", broker, "--output", "json") as process:
        done: dict[str, bool] = {}
        first: dict[str, int] = {}
        for report in reports(process):
            name = report["name"]
            if "batch" in report:
                first.setdefault(name, report["batch"])
            done[name] = report.get("lag") == 0
            if len(done) == 2 and all(done.values()):
                break
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate(timeout=STOP_S)
    assert process.returncode == 0, errors
    ended = {each["name"]: each["state"] for each in map(json.loads, rest.splitlines())}
    assert ended == {"kills.totals": "stopped", "kills.doubled": "stopped"}
    assert all(batch > 0 for batch in first.values()), "it began anew"

    doubled = [json.loads(each.value)["twice"] for each in http.read(f"{topic}.doubled")]
    assert sorted(doubled) == [each * 2 for each in range(ROWS)]
    totals = {
        each.key: json.loads(each.value)["orders"]
        for each in sorted(http.read(f"{topic}.totals"), key=lambda m: (m.partition, m.offset))
    }
    assert len(totals) == 15
    assert sum(totals.values()) == ROWS


def test_without_a_broker_it_ends_before_spark_starts(tmp_path: Path):
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE.format(topic="orders", rows_a_batch=ROWS_A_BATCH))
    with started("run", str(file), "--bootstrap", "127.0.0.1:1") as process:
        _, told = process.communicate()
    assert process.returncode == 3
    assert told.startswith("error: ")
