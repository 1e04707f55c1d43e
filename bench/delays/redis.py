"""Redis: a sorted set by due time, and a script that pops what is due, with appendfsync always."""

import shutil
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.brokers import free_port
from bench.delays.figures import Burst, Reader, due_times, now_ms, to_burst, to_value
from bench.process import Failed, Process
from bench.queues.peers import Missing

BATCH = 500
READY_SECONDS_MAX = 60
POP_DUE = """
local due = redis.call('ZRANGEBYSCORE', KEYS[1], 0, ARGV[1], 'LIMIT', 0, 500)
for _, each in ipairs(due) do
  redis.call('ZREM', KEYS[1], each)
  redis.call('RPUSH', KEYS[2], each)
end
return #due
"""


class RedisLink:
    """Redis's protocol, as far as this needs it."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._replies = self._socket.makefile("rb")

    def ask(self, *commands: tuple[object, ...]) -> list[Any]:
        """Sent together; the answer to each."""
        self._socket.sendall(b"".join(map(_encode, commands)))
        return [self._read() for _ in commands]

    def _read(self) -> Any:
        line = self._replies.readline().rstrip(b"\r\n")
        kind, rest = line[:1], line[1:]
        if kind == b"-":
            raise Failed(f"redis: {rest.decode()}")
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self._replies.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self._read() for _ in range(int(rest))]
        return rest


def _encode(command: tuple[object, ...]) -> bytes:
    words = [each if isinstance(each, bytes) else str(each).encode() for each in command]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


def measure(directory: Path, count: int, lead_ms: int, seconds_max: float) -> Burst:
    executable = shutil.which("redis-server")
    if executable is None:
        raise Missing("redis-server is not installed (Debian: apt-get install redis-server)")
    directory.mkdir(parents=True, exist_ok=True)
    port = free_port()
    argv = [executable, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory)]
    argv += ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
    process = Process(argv, directory / "redis.log")
    try:
        link = _wait_for(lambda: RedisLink(port), process)
        due = due_times(count, now_ms() + lead_ms)
        started = time.monotonic()
        for first in range(0, count, BATCH):
            some = range(first, min(first + BATCH, count))
            link.ask(*(("ZADD", "delayed", due[n], to_value(n, due[n])) for n in some))
        seconds = time.monotonic() - started
        done = threading.Event()
        mover = threading.Thread(target=_move_due, args=(port, done))
        mover.start()
        try:
            arrivals = _pop_all(link, count, seconds_max)
        finally:
            done.set()
            mover.join()
        return to_burst("redis", seconds, arrivals, process.usage().resident_bytes_peak)
    finally:
        process.stop()


def _move_due(port: int, done: threading.Event) -> None:
    """What a worker fleet on Redis runs: pop what is due, every 5 ms when there is nothing."""
    link = RedisLink(port)
    while not done.is_set():
        (moved,) = link.ask(("EVAL", POP_DUE, 2, "delayed", "ready", now_ms()))
        if not moved:
            done.wait(0.005)


def _pop_all(link: RedisLink, count: int, seconds_max: float) -> dict[int, tuple[int, int]]:
    reader, deadline = Reader(count), time.monotonic() + seconds_max
    while not reader.is_done and time.monotonic() < deadline:
        (first,) = link.ask(("BLPOP", "ready", 1))
        (more,) = link.ask(("LPOP", "ready", 500))
        for value in [*(first or [])[1:], *(more or [])]:
            reader.note(value)
    return reader.verify()


def _wait_for(connect: Callable[[], RedisLink], process: Process) -> RedisLink:
    deadline = time.monotonic() + READY_SECONDS_MAX
    while True:
        try:
            return connect()
        except OSError:
            process.demand_alive()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
