"""A switch in user space that delays, loses and doubles frames: for kernels without netem.

    root: tap gqN ──┐
    namespace of node 1: tap eth0 ──┼── this process ── heap of frames that are due later
    namespace of node 2: tap eth0 ──┘

    python -m tests.chaos.cables DEVICE NAMESPACE...

The devices are there as long as the process runs; port 0 is DEVICE, in the root namespace.  It
prints a line when it is ready.  Each line of its input is how the frames of one port suffer from
now on, as JSON: `{"port": 1, "delay": 0.2, "jitter": 0.1, "loss": 0.1, "duplicate": 0.02}`.  It
ends with its input.  Needs root.
"""

import contextlib
import ctypes
import fcntl
import heapq
import os
import random
import selectors
import struct
import sys
import time
from typing import Final

import msgspec

TUNSETIFF: Final = 0x400454CA
IFF_TAP: Final = 0x0002
IFF_NO_PI: Final = 0x1000
FRAME_BYTES: Final = 65_536
ETHERNET: Final = struct.Struct("6s6s")  # whom a frame is for, and whose it is
FRAMES_AT_ONCE: Final = 64
DELAYED_MAX: Final = 20_000  # frames; a full cable loses the rest


class Trouble(msgspec.Struct, frozen=True):
    """Of all that one port sends; seconds and probabilities."""

    port: int
    delay: float = 0.0
    jitter: float = 0.0
    loss: float = 0.0
    duplicate: float = 0.0


class Switch:
    def __init__(self, ports: list[int], seed: int) -> None:
        """`ports` are the devices' files."""
        self.troubles: dict[int, Trouble] = {}
        self._ports = ports
        self._places: dict[bytes, int] = {}  # the port of each address that has sent something
        self._late: list[tuple[float, int, int, bytes]] = []  # when, number, port, frame
        self._count = 0
        self._chance = random.Random(seed)

    @property
    def due_in(self) -> float | None:
        return max(0.0, self._late[0][0] - time.monotonic()) if self._late else None

    def take(self, port: int) -> None:
        """What a device has sent."""
        for _ in range(FRAMES_AT_ONCE):
            try:
                frame = os.read(self._ports[port], FRAME_BYTES)
            except BlockingIOError:
                return
            wanted, own = ETHERNET.unpack_from(frame)
            self._places[own] = port
            known = self._places.get(wanted)
            for each in range(len(self._ports)) if known is None else (known,):
                if each != port:
                    self._pass_on(port, each, frame)

    def _pass_on(self, port: int, to: int, frame: bytes) -> None:
        trouble = self.troubles.get(port)
        if trouble is None:
            self._send(to, frame)
            return
        chance = self._chance
        if chance.random() < trouble.loss:
            return
        for _ in range(2 if chance.random() < trouble.duplicate else 1):
            jitter = chance.uniform(-trouble.jitter, trouble.jitter)
            if trouble.delay + jitter <= 0:
                self._send(to, frame)
            elif len(self._late) < DELAYED_MAX:
                self._count += 1
                due = time.monotonic() + trouble.delay + jitter
                heapq.heappush(self._late, (due, self._count, to, frame))

    def send_due(self) -> None:
        now = time.monotonic()
        while self._late and self._late[0][0] <= now:
            _, _, to, frame = heapq.heappop(self._late)
            self._send(to, frame)

    def _send(self, to: int, frame: bytes) -> None:
        with contextlib.suppress(OSError):  # the device is down, or its queue is full
            os.write(self._ports[to], frame)


def open_tap(name: str) -> int:
    """In the namespace where this thread is."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TAP | IFF_NO_PI))
    return device


def enter(path: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    with open(path, "rb") as namespace:
        if libc.setns(namespace.fileno(), 0) != 0:
            raise OSError(ctypes.get_errno(), f"setns {path}")


def main() -> None:
    device, *namespaces = sys.argv[1:]
    own = "/proc/self/ns/net"
    home = os.open(own, os.O_RDONLY)
    ports = [open_tap(device)]
    for name in namespaces:
        enter(f"/run/netns/{name}")
        ports.append(open_tap("eth0"))
        enter(f"/proc/self/fd/{home}")
    switch = Switch(ports, seed=1)
    print("ready", flush=True)
    serve(switch, ports)


def serve(switch: Switch, ports: list[int]) -> None:
    with selectors.DefaultSelector() as selector:
        for number, each in enumerate(ports):
            selector.register(each, selectors.EVENT_READ, number)
        selector.register(sys.stdin.fileno(), selectors.EVENT_READ, None)
        while True:
            for key, _ in selector.select(switch.due_in):
                if key.data is not None:
                    switch.take(key.data)
                    continue
                line = sys.stdin.readline()
                if not line:
                    return
                trouble = msgspec.json.decode(line, type=Trouble)
                switch.troubles[trouble.port] = trouble
            switch.send_due()


if __name__ == "__main__":
    main()
