"""What all tests share: markers by folder, Hypothesis profiles, seeds, and a way to wait."""

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

import goqueue
from goqueue._version import __version__, compiled_modules

TESTS = Path(__file__).parent
FOLDER_MARKERS = ("chaos", "conformance", "sim", "spark")

# Tests of real processes, sockets and clocks hang on what else the machine does.  One that fails
# runs once more, and the summary names it (RERUN): mend it.  Those of the simulator say their seed.
REAL_TIME = ("chaos", "conformance", "spark", "unit")

SIM_SEEDS_DEFAULT = 10  # a slice: `make sim` tries a thousand
POLL_S = 0.02

# Simulated or shared machines are slow at odd moments: no example fails for its time alone.
settings.register_profile(
    "quick",
    max_examples=50,  # other ones at each run: what one leaves out, the next may find
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("thorough", parent=settings.get_profile("quick"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


# A job in the background of a shell ignores ctrl-c, and so would every process that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> str:
    """Which code is under test: src/ or the installed package, compiled or not."""
    place = Path(str(goqueue.__file__)).parent
    compiled = ", ".join(compiled_modules()) or "nothing"
    return f"goqueue {__version__} from {place}, compiled: {compiled}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0]
        if folder in FOLDER_MARKERS:
            item.add_marker(folder)
        if folder in REAL_TIME:
            item.add_marker(pytest.mark.flaky(reruns=1))
        if item.get_closest_marker("spark") and find_spec("pyspark") is None:
            item.add_marker(pytest.mark.skip(reason="needs goqueue[spark]"))
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)  # the longest first


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    if config.getvalue("dist") != "loadscope":
        return None
    from tests.division import Division

    return Division(config, log)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes a `seed` runs once for each; GOQUEUE_SIM_SEED=n repeats just one."""
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", list(_seeds()), ids="seed={}".format)


def _seeds() -> Iterator[int]:
    if one := os.environ.get("GOQUEUE_SIM_SEED"):
        yield int(one)
    else:
        yield from range(int(os.environ.get("GOQUEUE_SIM_SEEDS", SIM_SEEDS_DEFAULT)))


@pytest.fixture(autouse=True)
def _log_is_not_set_up() -> None:
    """Whoever set up the log before, a test that looks at log lines sees all of them."""
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def kcat() -> str:
    """The path of kcat; a test that asks for it is skipped on a machine without."""
    path = shutil.which("kcat")
    if path is None:
        pytest.skip("needs kcat")
    return path


@pytest.fixture
def eventually() -> Callable[..., None]:
    """Waits for what another process or thread will do: `eventually(lambda: port_is_open())`."""
    return _eventually


def _eventually(holds: Callable[[], object], *, within_s: float = 10.0) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, f"did not come true within {within_s} s"
        time.sleep(POLL_S)  # rule-ok: the one place that waits for other processes
