"""Who measures: the C client where it can be compiled, else kcat, else confluent-kafka.

All of them write the messages that `native/gqbench.c` describes, and compare every byte they read.
"""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from bench.client import LIMIT_SECONDS, Client, Run, Settings
from bench.fallback import ConfluentClient, KcatClient
from bench.process import Failed, Process

SOURCE = Path(__file__).parent / "native" / "gqbench.c"


class NativeClient(Client):
    """`native/gqbench.c` on librdkafka."""

    name = "librdkafka (C)"

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.executable = _compiled(directory)
        self._count = 0

    def create(self, broker: str, topic: str, partitions: int, settings: Settings) -> Run:
        flags = [flag for pair in _pairs(settings) for flag in ("-T", pair)]
        return self._run("create", broker, topic, "-p", partitions, *flags)

    def delete(self, broker: str, topic: str) -> None:
        self._run("delete", broker, topic)

    def produce(
        self,
        broker: str,
        topic: str,
        *,
        partitions: int,
        messages: int,
        size: int,
        settings: Settings,
    ) -> Run:
        flags = ["-p", partitions, "-n", messages, "-s", size, *_client_flags(settings)]
        return self._run("produce", broker, topic, *flags)

    def consume(self, broker: str, topic: str, *, partitions: int, messages: int, size: int) -> Run:
        return self._run("consume", broker, topic, "-p", partitions, "-n", messages, "-s", size)

    def touch(self, broker: str, topic: str, partitions: int) -> Run:
        """One message to every partition."""
        return self._run("touch", broker, topic, "-p", partitions)

    def peek(self, broker: str, topic: str, *, partitions: int, size: int) -> Run:
        """Read the last message of every partition."""
        return self._run("peek", broker, topic, "-p", partitions, "-s", size)

    def latency(
        self,
        broker: str,
        topic: str,
        *,
        partitions: int,
        messages: int,
        warm_up: int,
        size: int,
        rate: int,
        settings: Settings,
    ) -> dict[str, Any]:
        """Messages at a steady rate, each timed from when it was due to its ack and its arrival."""
        flags = ["-p", partitions, "-n", messages, "-w", warm_up, "-s", size, "-r", rate]
        done = self._start("latency", broker, topic, *flags, *_client_flags(settings))
        return _last_json(done.result(LIMIT_SECONDS))

    def produce_until_stopped(
        self, broker: str, topic: str, *, partitions: int, size: int, settings: Settings
    ) -> Process:
        """Goes on until SIGTERM, and then tells what was acknowledged (`acknowledged`)."""
        flags = ["-k", "-p", partitions, "-n", 10**12, "-s", size, *_client_flags(settings)]
        return self._start("produce", broker, topic, *flags)

    def contents(self, broker: str, topic: str, *, partitions: int, size: int) -> list[int]:
        """How many messages each partition holds, after comparing all of them."""
        flags = ["-k", "-p", partitions, "-n", 0, "-s", size]
        reader = self._start("consume", broker, topic, *flags)
        counts: list[int] = _last_json(reader.result(LIMIT_SECONDS))["messages_in"]
        return counts

    def _run(self, command: str, broker: str, topic: str, *flags: object) -> Run:
        output = self._start(command, broker, topic, *flags).result(LIMIT_SECONDS + 10)
        return msgspec.convert(_last_json(output), Run)

    def _start(self, command: str, broker: str, topic: str, *flags: object) -> Process:
        self._count += 1
        argv = [str(self.executable), command, "-b", broker, "-t", topic, "-l", str(LIMIT_SECONDS)]
        output = self._directory / "client" / f"{self._count:04d}-{command}.log"
        return Process([*argv, *map(str, flags)], output)


def acknowledged(producer: Process) -> list[int]:
    """Stop a producer; how many messages it has had acknowledged, by partition."""
    producer.stop()
    counts: list[int] = _last_json(producer.result(LIMIT_SECONDS))["messages_in"]
    return counts


def chosen(directory: Path, wanted: str = "auto") -> Client:
    """The best client that this machine has, or the one asked for."""
    makers: dict[str, Callable[[], Client]] = {
        "native": lambda: NativeClient(directory),
        "kcat": lambda: KcatClient(directory),
        "confluent": ConfluentClient,
    }
    if wanted != "auto":
        return makers[wanted]()
    problems = []
    for make in makers.values():
        try:
            return make()
        except Failed as problem:
            problems.append(str(problem))
    raise Failed("no client to measure with:\n" + "\n".join(problems))


def _compiled(directory: Path) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise Failed("no C compiler for the native client")
    target = directory / "gqbench"
    target.parent.mkdir(parents=True, exist_ok=True)
    argv = [compiler, "-O2", "-o", str(target), str(SOURCE), "-lrdkafka", "-lpthread"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{' '.join(argv)} (on Debian: apt install librdkafka-dev)\n{done.stderr}")
    return target


def _pairs(settings: Settings) -> list[str]:
    return [f"{name}={value}" for name, value in settings.items()]


def _client_flags(settings: Settings) -> list[str]:
    return [flag for pair in _pairs(settings) for flag in ("-X", pair)]


def _last_json(output: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
    return found
