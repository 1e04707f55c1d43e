"""Every part of the benchmarks in small, so that they still run when somebody needs them.

No figure is judged here: on a shared machine that would be a coin toss.
"""

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BENCH_S = 300

pytestmark = pytest.mark.timeout(2 * BENCH_S)

TINY = {
    "throughput": ["--messages", "3000", "--partitions", "2"],
    "latency": ["--rate", "2000", "--seconds", "0.5", "--linger", "1"],
    "http": ["--messages", "4000", "--connections", "2"],
    "partitions": ["--topics", "2", "--partitions", "3", "--seconds", "0.1"],
    "startup": ["--gigabytes", "0.004", "--seconds", "0.3"],
}


@pytest.fixture(autouse=True)
def _needs_the_command() -> None:
    if not Path(sys.executable).with_name("goqueue").exists():
        pytest.skip("needs the installed goqueue command")


@pytest.mark.parametrize("part", TINY)
def test_part_measures_with_the_native_client(part: str, native: None, tmp_path: Path):
    document = bench(tmp_path, part, "--client", "native", *TINY[part])
    figures = document["parts"][part]
    assert figures
    assert len(document["tables"][part]["rows"]) >= 1
    assert all(figure["broker"] == "goqueue" for figure in figures)


def test_throughput_measures_with_kcat(kcat: str, tmp_path: Path):
    flags = ["--client", "kcat", "--mode", "acks=1", "--messages", "2000"]
    document = bench(tmp_path, "throughput", *flags)
    assert all(figure["verified"] for figure in document["parts"]["throughput"])


@pytest.mark.skipif(find_spec("confluent_kafka") is None, reason="needs confluent-kafka")
def test_throughput_measures_with_confluent_kafka(tmp_path: Path):
    flags = ["--client", "confluent", "--mode", "acks=1", "--messages", "2000", "--partitions", "2"]
    document = bench(tmp_path, "throughput", *flags)
    assert all(figure["verified"] for figure in document["parts"]["throughput"])


@pytest.fixture(scope="session")
def native(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skips where the C client cannot be compiled."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    program = tmp_path_factory.mktemp("native") / "probe.c"
    program.write_text("#include <librdkafka/rdkafka.h>\nint main(void) { return 0; }\n")
    argv = [compiler, str(program), "-o", str(program.with_suffix("")), "-lrdkafka"]
    if subprocess.run(argv, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs librdkafka-dev")


def bench(tmp_path: Path, *flags: str) -> dict[str, Any]:
    figures = tmp_path / "figures.json"
    argv = [sys.executable, "-m", "bench", "--quick", "--peer", "none", "--json", str(figures)]
    argv += ["--directory", str(tmp_path), *flags]
    done = subprocess.run(
        argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=BENCH_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    document: dict[str, Any] = json.loads(figures.read_text())
    assert document["machine"]["cores"] >= 1
    return document
