"""Many small pipelines in one service: `python -m bench.spark_service [--pipelines 200]`.

Each copies a topic of its own into another, one small message at a time.  When all of them have
copied their first message, the service's processes are weighed (proportional set size: pages that
processes share count once), and once more when they have copied a second one, some idle minutes
later.  Beside that: how long it took until all ran, the CPU time of an idle minute, and the most
that they weighed at any time.  At the end every target is read and compared.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from bench.spark_broker import TICKS_A_SECOND, Broker
from goqueue.client import Client, Message
from goqueue.client.kafka import KafkaClient

PIPELINE = """
name: p{number}
trigger: {trigger}
sources: {{lines: {{topic: in{number}}}}}
sinks: {{out: {{topic: out{number}, from: lines, partitions: 1}}}}
"""
WAIT_S = 3600.0


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--pipelines", type=int, default=200)
    options.add_argument("--trigger", default="10s")
    options.add_argument("--minutes", type=float, default=2.0, help="that it is watched for")
    options.add_argument("--driver-memory", default="1g")
    options.add_argument("--live-queries", type=int, default=10)
    given = options.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="goqueue-bench-"))
    broker = Broker(directory)
    try:
        with KafkaClient(broker.address) as client:
            url = client.http_url()
        with Client(url) as http:
            measure(http, broker, given, directory / "pipelines")
    finally:
        broker.end()
        shutil.rmtree(directory, ignore_errors=True)


def measure(http: Client, broker: Broker, given: argparse.Namespace, folder: Path) -> None:
    folder.mkdir()
    for number in range(given.pipelines):
        http.create_topic(f"in{number}", partitions=1)
        http.publish(f"in{number}", Message("first"))
        text = PIPELINE.format(number=number, trigger=given.trigger)
        (folder / f"p{number}.yaml").write_text(text)
    command = [*(sys.executable, "-P", "-m", "goqueue", "--server", http.base_url), "pipeline"]
    command += ["serve", str(folder), "--bootstrap", broker.address]
    command += ["--set", f"spark.driver.memory={given.driver_memory}"]
    command += ["--live-queries", str(given.live_queries)]
    start = time.monotonic()
    peak = Peak()
    service = subprocess.Popen(command, start_new_session=True)
    try:
        peak.watch(service.pid)
        wait_for(http, given.pipelines, ["first"], service)
        tell(f"{given.pipelines} pipelines copy after {time.monotonic() - start:.0f} s", service)
        before, began = peak.cpu_seconds(), time.monotonic()
        while time.monotonic() - began < given.minutes * 60:
            time.sleep(10)
        idle = (peak.cpu_seconds() - before) / (time.monotonic() - began) * 60
        for number in range(given.pipelines):
            http.publish(f"in{number}", Message("second"))
        again = time.monotonic()
        wait_for(http, given.pipelines, ["first", "second"], service)
        tell(f"{idle:.1f} CPU s an idle minute; the next message {time.monotonic() - again:.0f} s",
             service)  # fmt: skip
        check(http, given.pipelines, ["first", "second"])
        print(f"every target has its messages, each once; at most {peak.mib:,.0f} MiB")
    finally:
        service.terminate()
        service.wait(120)


def wait_for(
    http: Client, count: int, values: list[str], service: "subprocess.Popen[bytes]"
) -> None:
    """Until every target has so many."""
    deadline = time.monotonic() + WAIT_S
    missing = set(range(count))
    while missing:
        assert service.poll() is None, "the service has ended"
        assert time.monotonic() < deadline, f"{len(missing)} of {count} are missing"
        there = {each.name for each in http.topics() if each.messages}
        missing = {
            each
            for each in missing
            if f"out{each}" not in there or len(read(http, each)) < len(values)
        }
        time.sleep(1)


def check(http: Client, count: int, values: list[str]) -> None:
    """Every target has these and no others, in order."""
    for number in range(count):
        found = read(http, number)
        assert found == values, f"out{number} has {found}"


def read(http: Client, number: int) -> list[str]:
    return [json.loads(each.value or b"{}")["value"] for each in http.read(f"out{number}")]


class Peak:
    """The largest sum of all processes, and their CPU time, looked at every two seconds.

    The time of processes that have ended counts as it was last seen: whoever adds up those that are
    left gets less than before.
    """

    def __init__(self) -> None:
        self.mib = 0.0
        self._ticks: dict[tuple[int, str], int] = {}  # by process id and start

    def cpu_seconds(self) -> float:
        return sum(list(self._ticks.values())) / TICKS_A_SECOND

    def watch(self, root: int) -> None:
        threading.Thread(target=self._watch, args=(root,), daemon=True).start()

    def _watch(self, root: int) -> None:
        while members := family(root):
            self.mib = max(self.mib, sum(map(proportional_mib, members)))
            self._ticks.update(each for pid in members if (each := ticks_of(pid)) is not None)
            time.sleep(2)


def tell(text: str, service: "subprocess.Popen[bytes]") -> None:
    members = family(service.pid)
    sizes = {pid: proportional_mib(pid) for pid in members}
    java = max(sizes.values())
    rest = sum(sizes.values()) - java
    print(
        f"{text}; {sum(sizes.values()):,.0f} MiB in {len(members)} processes"
        f" (the JVM {java:,.0f}, Python {rest:,.0f}); load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


def family(root: int) -> list[int]:
    """All processes of its session, and those that these started."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(path.name)) == root:
                found.append(int(path.name))
        except (ProcessLookupError, PermissionError):
            continue
    return found


def proportional_mib(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (OSError, ProcessLookupError):
        return 0.0
    line = next((each for each in text.splitlines() if each.startswith("Pss:")), "Pss: 0 kB")
    return int(line.split()[1]) / 1024


def ticks_of(pid: int) -> tuple[tuple[int, str], int] | None:
    """A process, told from another one that got its number, and its own CPU time."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (pid, fields[19]), sum(map(int, fields[11:13]))


if __name__ == "__main__":
    main()
