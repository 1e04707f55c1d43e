"""What systemd wants to hear of a service with `Type=notify` (see sd_notify(3)).

A datagram with lines `NAME=VALUE` to the socket that `NOTIFY_SOCKET` names, a path or, with `@`, an
abstract name.  Without that variable nothing is sent.  A message that cannot be sent is dropped:
the server does not depend on who watches it.
"""

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import Mapping
from typing import Final

STOP_SECONDS: Final = 0.2  # until a stop that was asked for begins: the answer leaves first
WATCHDOG_SHARE: Final = 0.5  # of the time that the service manager allows between two signs


class _Process:
    is_supervised = False


def note_supervised() -> None:
    """Whoever started this process starts it again when it ends."""
    _Process.is_supervised = True


def is_supervised() -> bool:
    return _Process.is_supervised


def stop_soon() -> None:
    """As if somebody had sent SIGTERM to this process."""
    asyncio.get_running_loop().call_later(STOP_SECONDS, os.kill, os.getpid(), signal.SIGTERM)


class ServiceManager:
    def __init__(self, environment: Mapping[str, str]) -> None:
        name = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + name[1:] if name.startswith("@") else name
        self._watchdog_seconds = _watchdog_seconds(environment)

    def ready(self) -> None:
        self._tell(f"READY=1\nMAINPID={os.getpid()}\nSTATUS=serving")

    def notify_reloading(self) -> None:
        microseconds = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={microseconds}")

    def notify_stopping(self) -> None:
        self._tell("STOPPING=1\nSTATUS=stopping")

    async def run_watchdog(self) -> None:
        """Say that the event loop turns, as often as asked for; return when nobody asks."""
        if not self._address or not self._watchdog_seconds:
            return
        while True:
            self._tell("WATCHDOG=1")
            await asyncio.sleep(self._watchdog_seconds * WATCHDOG_SHARE)

    def _tell(self, text: str) -> None:
        if not self._address:
            return
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel,
        ):
            channel.setblocking(False)
            channel.sendto(text.encode(), self._address)


def _watchdog_seconds(environment: Mapping[str, str]) -> float:
    """0 when there is no watchdog, or when it watches another process."""
    text, process = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    if not text.isdigit() or (process and process != str(os.getpid())):
        return 0.0
    return int(text) / 1e6
