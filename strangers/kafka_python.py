"""kafka-python's integration tests, from its source distribution."""

import os
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from strangers.suite import Outcome, Result, Suite, demand, execute, unpack

RUN_SECONDS_MAX = 1_200
BROKER_VERSION = "4.3.0"

# The distribution leaves out the module that starts brokers.  Ours is running already.
SERVICE = """
class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self): ...

    def close(self): ...


class SpawnedService:
    def __init__(self, *arguments, **options):
        raise NotImplementedError("this test wants a broker with settings of its own")
"""


class KafkaPython(Suite):
    name = "kafka-python"
    version = "3.0.12"
    server_arguments: ClassVar[Sequence[str]] = (
        *("--node-id", "0"),
        *("--set", "topics.partitions=4"),
        *("--set", "groups.session_timeout_ms_min=1000"),
    )
    known: ClassVar[Mapping[str, str]] = {
        "test_create_describe_delete_acls": "access control lists",
        "test_ssl_handshake": "wants a broker with TLS",
        "test_legacy_kafka_client_ssl": "wants a broker with TLS",
    }

    def build(self, work: Path) -> None:
        argv = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:"]
        demand([*argv, f"kafka-python=={self.version}"], work, log=work / "fetch.log")
        (archive,) = work.glob("*.tar.gz")
        unpack(archive, work)
        source = next(work.glob("kafka*python-*/"))
        (work / "source").symlink_to(source.relative_to(work))
        (source / "test" / "__init__.py").touch()
        (source / "test" / "service.py").write_text(SERVICE)

    def run(self, address: str, tests: Sequence[str], report: Path) -> list[Result]:
        summary = report / "kafka-python.xml"
        argv = [sys.executable, "-m", "pytest", "test/integration", f"--junitxml={summary}"]
        argv += ["--quiet", "--tb=short", "--show-capture=no", "--timeout=180"]
        argv += ["-p", "no:cacheprovider", "-p", "no:schemathesis"]
        if tests:
            argv += ["-k", " or ".join(tests)]
        environment = {
            "KAFKA_URI": f"kafka://{address}",
            "KAFKA_VERSION": BROKER_VERSION,
            "KAFKA_ROOT": os.fspath(report),  # looked for, and not used with a broker that runs
            "PYTHONPATH": "",
        }
        log = report / "kafka-python.log"
        source = self.directory / "source"
        execute(argv, source, log=log, env=environment, seconds_max=RUN_SECONDS_MAX)
        if not summary.exists():
            return [Result("(all)", Outcome.FAILED, note="wrote no report: see kafka-python.log")]
        return list(results(summary))


def results(summary: Path) -> Iterator[Result]:
    """What pytest's report says of each test."""
    for case in ElementTree.parse(summary).getroot().iter("testcase"):
        outcome, note = _outcome(case)
        yield Result(case.attrib["name"], outcome, float(case.attrib["time"]), note)


def _outcome(case: ElementTree.Element) -> tuple[Outcome, str]:
    for tag, outcome in (("failure", Outcome.FAILED), ("error", Outcome.FAILED)):
        if (found := case.find(tag)) is not None:
            return outcome, found.attrib.get("message", "").splitlines()[0][:120]
    if (skipped := case.find("skipped")) is not None:
        return Outcome.SKIPPED, skipped.attrib.get("message", "")
    return Outcome.PASSED, ""
