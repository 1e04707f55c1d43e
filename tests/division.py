"""How tests are divided among processes: `make test` runs them in three.

Tests that share what takes long to start are run by one of them: those that use Spark's session,
those of a file, with the server they share.  The long ones come first.
"""

from typing import Final

from xdist.scheduler import LoadScopeScheduling

# Commands with a JVM of their own: they need no session, and run beside those that do.
COMMANDS_OF_SPARK: Final = (
    "test_demo.py",
    "test_jobs_cli.py",
    "test_pipeline_commands.py",
    "test_pipeline_serve.py",
)
# They share nothing, or have a server for each test.
ONE_BY_ONE: Final = (
    "tests/chaos/",
    "tests/sim/",
    "tests/conformance/test_bench_slice.py",
    "tests/conformance/test_docs.py",
)


class Division(LoadScopeScheduling):  # type: ignore[misc]  # it ships no types
    def _split_scope(self, nodeid: str) -> str:
        """What is run together with other tests of the same answer."""
        path = nodeid.split("::", maxsplit=1)[0]
        if path.startswith("tests/spark/") and not path.endswith(COMMANDS_OF_SPARK):
            return "tests/spark/"
        return nodeid if path.startswith(ONE_BY_ONE) else path
