"""What the docs say to type can be typed: every command and program, in the order of its page.

The pages about Spark are left out: their blocks need Spark, tables and minutes, and tests/spark
has programs of its own.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.cli.commands import FREE_PORTS, RunningServer, environment
from tests.conformance.documents import blocks, script, write_shims

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/guides").glob("*.md")),
]
SPARK_PAGES = {"archives.md", "pipelines.md", "reports.md", "spark.md"}
RUN_PAGES = [each for each in PAGES if each.name not in SPARK_PAGES and any(blocks(each))]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    directory = tmp_path / "server"
    directory.mkdir()
    running = RunningServer(directory, *FREE_PORTS)
    yield running
    running.end()


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.timeout(180)
@pytest.mark.parametrize("page", RUN_PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_run(page: Path, server: RunningServer, tmp_path: Path):
    write_shims(tmp_path / "bin")
    directory = tmp_path / "work"
    directory.mkdir()
    text = script(page, server.url.removeprefix("http://"), server.kafka)
    done = subprocess.run(
        ["bash", "-c", text],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env={
            **environment(),
            "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
            "GOQUEUE_SERVER": server.url,
        },
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert "Traceback" not in server.log()
