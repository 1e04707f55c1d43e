"""`goqueue pipeline serve` as a process: files come, fail, change; it is stopped, killed, asked."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from goqueue.client import Client
from tests.spark.test_pipeline_commands import COMMAND, started

WAIT_S = 240.0

PIPELINE = """
name: {name}
sources:
  lines: {{topic: {topic}, schema: "id bigint", bad: {bad}}}
sinks:
  out: {{topic: {topic}.{name}, from: lines, partitions: 1}}
"""


@pytest.fixture
def http(client) -> Iterator[Client]:
    with Client(client.http_url()) as found:
        yield found


def ask(http: Client, *arguments: str) -> Any:
    """What the command writes, for programs."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", COMMAND, "pipeline", *arguments],
        env={**os.environ, "GOQUEUE_SERVER": http.base_url},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_pipelines_of_a_folder_run_fail_are_mended_and_go_on(
    broker, http, fill, topic, eventually, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GOQUEUE_SERVER", http.base_url)
    fill(topic, 0, ['{"id": 1}', '{"id": 2}', "no json"])

    def write(name: str, bad: str) -> None:
        (tmp_path / f"{name}.yaml").write_text(PIPELINE.format(name=name, topic=topic, bad=bad))

    def values(name: str) -> list[int]:
        topics = {each.name for each in http.topics()}
        if f"{topic}.{name}" not in topics:
            return []
        return [json.loads(each.value or b"{}")["id"] for each in http.read(f"{topic}.{name}")]

    def standings() -> dict[str, Any]:
        return {each["name"]: each for each in ask(http, "list")}

    kept, lake = f"{topic}.kept", tmp_path / "lake"
    settings = {"goqueue.table.format": "delta", "goqueue.table.decode": "json"}
    http.create_topic(kept, partitions=1, settings=settings)
    fill(kept, 0, ['{"id": 1}', '{"id": 2}'])

    def table() -> list[int]:
        """Of the topic whose settings say that it is one."""
        if not (lake / kept / "_delta_log").is_dir():
            return []
        return sorted(DeltaTable(lake / kept).to_pyarrow_table()["id"].to_pylist())

    write("strict", "fail")
    write("easy", "drop")
    serve = ["serve", str(tmp_path), "--bootstrap", broker]
    serve += ["--tables", str(lake), "--tables-every", "1s"]
    with started(*serve) as process:
        eventually(lambda: values("easy") == [1, 2], within_s=WAIT_S)  # one that drops what is bad
        eventually(
            lambda: standings().get("strict", {}).get("restarts", 0) > 0, within_s=WAIT_S
        )  # one that fails is tried again
        assert "does not fit the schema" in standings()["strict"]["problem"]
        write("strict", "drop")  # whoever has the pager mends the file
        eventually(
            lambda: values("strict") == [1, 2], within_s=WAIT_S
        )  # the changed file is adopted
        assert ask(http, "stop", "easy")["state"] == "stopped"
        fill(topic, 0, ['{"id": 3}'])
        eventually(lambda: values("strict") == [1, 2, 3], within_s=WAIT_S)  # the other goes on
        events = [each["event"] for each in ask(http, "logs", "strict")]
        assert events[:2] == ["started", "failed"]
        assert "changed" in events
        eventually(lambda: table() == [1, 2], within_s=WAIT_S)
        fill(kept, 0, ['{"id": 3}'])
        os.killpg(process.pid, signal.SIGKILL)
    assert values("easy") == [1, 2]

    with started(*serve, "--live-queries", "2") as process:
        fill(topic, 0, ['{"id": 4}'])
        eventually(
            lambda: values("strict") == [1, 2, 3, 4], within_s=WAIT_S
        )  # killed, it goes on, each row once
        assert ask(http, "status", "easy")["state"] == "stopped"  # as the operator left it
        assert ask(http, "restart", "easy")["state"] in ("starting", "running")
        eventually(
            lambda: values("easy") == [1, 2, 3, 4], within_s=WAIT_S
        )  # what came while it was stopped
        eventually(lambda: table() == [1, 2, 3], within_s=WAIT_S)

        def parked() -> set[str]:
            found = {name: each.get("queries", []) for name, each in standings().items()}
            return {
                name
                for name, queries in found.items()
                if any(each["state"] == "parked" for each in queries)
            }

        eventually(lambda: len(parked()) > 0, within_s=WAIT_S)  # of three only two are live
        assert {each["state"] for each in standings().values()} == {"running"}
        fill(topic, 0, ['{"id": 5}'])
        fill(kept, 0, ['{"id": 4}'])
        for name in ("easy", "strict"):  # each in its turn, and each row once
            eventually(lambda name=name: values(name) == [1, 2, 3, 4, 5], within_s=WAIT_S)
        eventually(lambda: table() == [1, 2, 3, 4], within_s=WAIT_S)
        http.change_settings(kept, {"goqueue.table.format": "none"})
        eventually(lambda: f"table.{kept}" not in standings(), within_s=WAIT_S)
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0
