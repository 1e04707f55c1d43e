"""franz-go's `kgo`: its unit and integration tests, from the Go module proxy."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from bench.brokers import GoQueue, installed_goqueue, login_arguments
from strangers.suite import Outcome, Result, Suite, Unavailable, demand, execute

RUN_SECONDS_MAX = 3_000
USER = "franz"  # and its password
RECORDS = "20000"  # of each test that moves many; the suite's own default is 500,000

# At the margin: tests inside tests are indented, and not counted.
ENDED = re.compile(r"^--- (PASS|FAIL|SKIP): (\S+) \(([\d.]+)s\)", re.MULTILINE)
OUTCOMES = {"PASS": Outcome.PASSED, "FAIL": Outcome.FAILED, "SKIP": Outcome.SKIPPED}


class FranzGo(Suite):
    name = "franz-go"
    version = "1.22.2"
    needs: ClassVar[Sequence[str]] = ("go",)
    known: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("TestConsumeRegex", "TestConsumeRegexShareSkipsInternal", "Test848RegexBrokerResolves"),
        "wants to see a topic __consumer_offsets: the broker's own logs are in no metadata",
    )

    def build(self, work: Path) -> None:
        source = _downloaded(f"github.com/twmb/franz-go@v{self.version}")
        # The module cache is read-only, and the tests are built inside their module.
        shutil.copytree(source, work / "source", copy_function=shutil.copyfile)
        for folder in (work / "source").rglob("*"):
            if folder.is_dir():
                folder.chmod(0o755)
        argv = ["go", "test", "-c", "-o", str(work / "kgo.test"), "./pkg/kgo"]
        demand(argv, work / "source", log=work / "build.log")

    def run(self, address: str, tests: Sequence[str], report: Path) -> list[Result]:
        log = report / "kgo.log"
        argv = [str(self.directory / "kgo.test"), "-test.v"]
        argv += [f"-test.timeout={RUN_SECONDS_MAX}s"]
        if tests:
            argv += [f"-test.run=^({'|'.join(tests)})$"]
        environment = {"KGO_SEEDS": address, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": RECORDS}
        package = self.directory / "source" / "pkg" / "kgo"
        with _guarded_broker(report / "guarded") as guarded:
            environment |= {"KGO_TEST_SCRAM_SEEDS": guarded, "KGO_TEST_SCRAM": f"{USER}:{USER}:256"}
            execute(argv, package, log=log, env=environment, seconds_max=RUN_SECONDS_MAX + 60)
        return results(log.read_text(errors="replace"))


@contextmanager
def _guarded_broker(directory: Path) -> Iterator[str]:
    """The address of a second broker, at which clients have to log in: for the tests of SCRAM."""
    arguments = login_arguments(directory, USER, USER)
    broker = GoQueue(directory, installed_goqueue(), arguments)
    broker.start()
    try:
        yield broker.kafka
    finally:
        broker.remove()


def _downloaded(module: str) -> Path:
    argv = ["go", "mod", "download", "-json", module]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False)
    try:
        return Path(json.loads(done.stdout)["Dir"])
    except (json.JSONDecodeError, KeyError):
        raise Unavailable(f"{' '.join(argv)}:\n{done.stdout}{done.stderr}") from None


def results(output: str) -> list[Result]:
    """What the output of `go test -v` says of each test."""
    found = [
        Result(test, OUTCOMES[word], float(seconds))
        for word, test, seconds in ENDED.findall(output)
    ]
    if "panic: test timed out" in output:
        found.append(Result("(all)", Outcome.TIMED_OUT, note="see kgo.log for what was running"))
    return found
