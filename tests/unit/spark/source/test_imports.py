"""What the processes that Spark starts import."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "not_needed"),
    [
        ("goqueue.spark.source", ("kio", "pyarrow", "numpy", "asyncio")),
        ("goqueue.spark.batches", ("pyarrow", "numpy", "asyncio")),
        ("goqueue.spark.reading", ("pandas", "asyncio", "goqueue.queue", "goqueue.log")),
    ],
)
def test_a_process_of_sparks_imports_what_it_needs(module, not_needed):
    """Spark starts one for everything it does, and each pays for all its imports."""
    program = (
        f"import sys, {module}; print(*(name for name in {not_needed} if name in sys.modules))"
    )
    baseline = "import pyspark.sql.datasource, sys; print(*sys.modules)"
    before = subprocess.run(
        [sys.executable, "-c", baseline], capture_output=True, text=True, check=True
    ).stdout.split()
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) <= set(before)
