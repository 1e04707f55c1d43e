"""What the processes that Spark starts import."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "not_needed"),
    [
        ("goqueue.spark.source.source", {"kio", "pyarrow", "numpy", "asyncio"}),
        ("goqueue.spark.source.batches", {"pyarrow", "numpy", "asyncio"}),
        ("goqueue.spark.source.stream_offsets", {"pyarrow", "asyncio", "httpx"}),
        (
            "goqueue.spark.source.partition_reader",
            {"pandas", "asyncio", "goqueue.queue", "goqueue.log"},
        ),
    ],
)
def test_a_process_of_sparks_imports_what_it_needs(module, not_needed):
    """Spark starts one for everything it does, and each pays for all its imports."""
    imported = imported_by(module) - imported_by("pyspark.sql.datasource")
    assert not imported & not_needed


def imported_by(module):
    return set(printed(f"import sys, {module}; print(*sys.modules)").split())


def printed(program):
    argv = [sys.executable, "-c", program]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("missing", ["pyspark", "pyarrow", "msgspec"])
def test_spark_looks_for_formats_also_where_ours_lacks_something(missing):
    """A module of this name that raises would hide everybody's formats."""
    program = (
        f"import sys; sys.modules[{missing!r}] = None; import pyspark_goqueue;"
        " print(hasattr(pyspark_goqueue, 'DefaultSource'))"
    )
    assert printed(program) == ("True" if missing == "pyarrow" else "False")
