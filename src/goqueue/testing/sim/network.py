"""TCP in memory: bytes in order, cut anywhere, late, or a connection reset.

A `SimFabric` is all the wire there is; each host has a `SimNetwork` on it.  A connection is two
`SimTransport`s that know each other.  What one end writes waits in its `outbox` and is pumped to
the other in pieces of random size, one at a time, each after a random delay:

    write --> outbox --pump--> data_received     the end's reader may pause: the outbox grows,
                 |                               and past its limits the writer is paused
                 +-- when it is empty: the end of the stream, if `close` or `write_eof` asked

What stops a pump, and what sets it going again:

    the reader is paused                    `resume_reading`
    the reader's process is paused          `resume`; its kernel takes what fits until then
    the hosts are cut off, or one is down   `heal`, `up`; the writer is told after
                                            `RETRANSMISSION_TIMEOUT_S`
    the other end has no socket any more    a reset comes back, as from a real kernel

A reset is sent once.  If it meets a cut it is lost, and the other end believes in the connection
until it writes: half open.  So does the peer of a host that lost its power (`vanish`), while a
killed process (`kill`) leaves a kernel behind that says goodbye.

Addresses are host names.  A listener on a loopback address is seen from its own host only.
"""

import asyncio
import errno
import random
import ssl
from collections.abc import Callable, Iterable
from contextvars import Context, copy_context
from typing import Any, Final

from goqueue.runtime import Handshakes
from goqueue.testing.sim.loop import LIFE, SimCrash

DELAY_S: Final = (0.000_05, 0.002)
RETRANSMISSION_TIMEOUT_S: Final = 924.0  # how long a kernel repeats bytes that nobody acknowledges
CONNECT_TIMEOUT_S: Final = 127.0
SOCKET_BYTES: Final = 65_536  # what the kernels hold; beyond it, bytes are the transport's
READ_BYTES_MAX: Final = 262_144
FIRST_FREE_PORT: Final = 32_768

_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_ANYWHERE: Final = frozenset({"", "0.0.0.0", "::"})

Address = tuple[str, int]
ConnectionFactory = Callable[[], asyncio.BaseProtocol]


class SimTransport(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, fabric: "SimFabric", host: str, address: Address, peer: Address) -> None:
        super().__init__({"sockname": address, "peername": peer})
        self.host = host
        self._fabric = fabric
        self._loop = asyncio.get_running_loop()
        self._peer: SimTransport = self  # until `join`
        self._protocol: asyncio.BaseProtocol = asyncio.BaseProtocol()
        self._context = Context()
        self._outbox = bytearray()  # written here, not yet handed to the peer's protocol
        self._limits = (16_384, SOCKET_BYTES)
        self._made = False  # the protocol knows of the connection
        self._reading = True
        self._writing_paused = False
        self._closing = False
        self._open = True  # whether the kernel has a socket for this end
        self._end_asked = False
        self._end_handed_over = False
        self._pumping = False  # invariant: at most one pump is on its way
        self._retransmission_timer: asyncio.TimerHandle | None = None

    def join(self, peer: "SimTransport") -> None:
        self._peer, peer._peer = peer, self

    def begin(self, connection: ConnectionFactory, context: Context) -> None:
        """Make the protocol and tell it of the connection.  Runs in `context`."""
        self._context = context
        self._protocol = connection()
        self._protocol.connection_made(self)
        self._made = True
        self.wake()
        self._peer.wake()

    # --- asyncio's interface ------------------------------------------------------------------

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._peer.wake()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = SOCKET_BYTES if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high}) must be >= low ({low}) must be >= 0")
        self._limits = (low, high)
        self._pause_if_full()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._limits

    def get_write_buffer_size(self) -> int:
        return max(0, len(self._outbox) - SOCKET_BYTES)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._end_asked and not self._closing:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self._closing or self._dead or not data:
            return
        self._outbox += data
        self._pause_if_full()
        self.wake()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self._closing and not self._dead:
            self._end_asked = True
            self.wake()

    def close(self) -> None:
        """Send what was written, then end.  Nothing more is received."""
        if self._closing or self._dead:
            return
        self._closing = True
        self._end_asked = True
        self._close_when_sent()
        self.wake()

    def abort(self) -> None:
        """End at once.  What the kernel has it still sends, unless bytes came that nobody read."""
        if self._open and not self._dead:
            del self._outbox[SOCKET_BYTES:]
            self.kill()
            self._tell_lost(None)

    # --- what the fabric does to it -----------------------------------------------------------

    @property
    def peer_host(self) -> str:
        return self._peer.host

    @property
    def finished(self) -> bool:
        return not self._open and (not self._outbox or not self._peer._open)

    def wake(self) -> None:
        """See after a delay whether anything can move."""
        if self._pumping or not self._made or not (self._outbox or self._end_asked):
            return
        self._pumping = True
        delay = self._fabric.delay(self.host, self._peer.host)
        self._loop.call_later(delay, self._pump, context=Context())

    def reset(self) -> None:
        """Break the connection: both ends are told, unless the wire between them is cut."""
        self.fail(_reset_by_peer())
        self._reset_peer()

    def vanish(self) -> None:
        """The host lost its power: this end is gone, and nobody is told."""
        self._forget()
        self._outbox.clear()

    def kill(self) -> None:
        """The process is gone; its kernel sends what was written, and the end of the stream."""
        unread = bool(self._peer._outbox)
        self._forget()
        if unread:
            self._outbox.clear()
            self._reset_peer()
        else:
            self._end_asked = True
            self.wake()

    def fail(self, reason: Exception | None) -> None:
        """The end of the connection, at once: `connection_lost(reason)`."""
        if not self._open:
            return
        self._forget()
        self._outbox.clear()
        self._tell_lost(reason)

    # --- moving bytes -------------------------------------------------------------------------

    def _pump(self) -> None:
        self._pumping = False
        peer = self._peer
        if not self._fabric.reaches(self.host, peer.host):
            self._start_retransmission_timer()
            return
        self._be_patient_again()
        if not peer._open:
            self._meet_no_socket()
        elif peer._made and peer.is_reading() and not peer._dead and not peer._paused:
            self._hand_over()

    def _meet_no_socket(self) -> None:
        if self._outbox:
            self._outbox.clear()
            self.fail(_reset_by_peer())

    def _hand_over(self) -> None:
        if self._outbox:
            if self._fabric.breaks():
                self.reset()
                return
            taken = self._peer._receive(self._outbox, self._fabric.piece(len(self._outbox)))
            del self._outbox[:taken]
            self._after_sending()
            self.wake()
        elif self._end_asked and not self._end_handed_over:
            self._end_handed_over = True
            self._peer._receive_end()

    def _receive(self, data: bytearray, length: int) -> int:
        """Give up to `length` bytes to the protocol; how many it took."""
        protocol = self._protocol
        if isinstance(protocol, asyncio.BufferedProtocol):
            return self._call(self._fill_buffer, protocol, data, length) or 0
        assert isinstance(protocol, asyncio.Protocol), f"{protocol} cannot receive"
        self._call(protocol.data_received, bytes(data[:length]))
        return length

    def _fill_buffer(self, protocol: asyncio.BufferedProtocol, data: bytearray, length: int) -> int:
        buffer = memoryview(protocol.get_buffer(length)).cast("B")
        if not buffer:
            raise RuntimeError("get_buffer() returned an empty buffer")
        taken = min(length, len(buffer))
        buffer[:taken] = data[:taken]
        protocol.buffer_updated(taken)
        return taken

    def _receive_end(self) -> None:
        protocol = self._protocol
        assert isinstance(protocol, asyncio.Protocol | asyncio.BufferedProtocol)
        if not self._call(protocol.eof_received):
            self.close()

    def _after_sending(self) -> None:
        if self._closing:
            self._close_when_sent()
        elif self._writing_paused and self.get_write_buffer_size() <= self._limits[0]:
            self._writing_paused = False
            self._call(self._protocol.resume_writing)

    def _pause_if_full(self) -> None:
        if not self._writing_paused and self.get_write_buffer_size() > self._limits[1]:
            self._writing_paused = True
            self._protocol.pause_writing()

    # --- ends -----------------------------------------------------------------------------------

    @property
    def _dead(self) -> bool:
        life = self._context.get(LIFE)
        return life is not None and not life.alive

    @property
    def _paused(self) -> bool:
        life = self._context.get(LIFE)
        return life is not None and life.held is not None

    def _close_when_sent(self) -> None:
        """Once the kernel has all the bytes, the protocol is done with; the kernel goes on."""
        if self._open and self.get_write_buffer_size() == 0:
            self._forget()
            self._tell_lost(None)

    def _forget(self) -> None:
        self._closing = True
        self._open = False
        self._be_patient_again()
        self._peer.wake()  # what it still sends meets no socket
        self._fabric.sweep()

    def _tell_lost(self, reason: Exception | None) -> None:
        if self._made:
            self._loop.call_soon(self._protocol.connection_lost, reason, context=self._context)

    def _reset_peer(self) -> None:
        self._loop.call_later(self._fabric.delay(), self._reset_arrives, context=Context())

    def _reset_arrives(self) -> None:
        if self._fabric.reaches(self.host, self._peer.host):
            self._peer.fail(_reset_by_peer())

    def _start_retransmission_timer(self) -> None:
        if self._retransmission_timer is None and self._open:
            self._retransmission_timer = self._loop.call_later(
                self._fabric.retransmission_timeout_s,
                lambda: self.fail(TimeoutError(errno.ETIMEDOUT, "Connection timed out")),
                context=Context(),
            )

    def _be_patient_again(self) -> None:
        if self._retransmission_timer is not None:
            self._retransmission_timer.cancel()
            self._retransmission_timer = None

    def _call(self, callback: Callable[..., Any], *args: Any) -> Any:
        """Call the protocol in its own life.  An error of it costs the connection."""
        try:
            return self._context.run(callback, *args)
        except SimCrash:
            if not self._dead:
                raise
        except Exception as error:
            self._loop.call_exception_handler(
                {"message": "a protocol failed", "exception": error, "protocol": self._protocol}
            )
            self.reset()
        return None


class SimListener:
    """See `environment.Listener`."""

    def __init__(
        self, fabric: "SimFabric", host: str, address: Address, connection: ConnectionFactory
    ) -> None:
        self.host = host
        self.only_local = address[0] in _LOOPBACK
        self.context = copy_context()
        self.connection = connection
        self._fabric = fabric
        self._address = address

    @property
    def address(self) -> Address:
        return self._address

    @property
    def alive(self) -> bool:
        life = self.context.get(LIFE)
        return life is None or life.alive

    async def close(self) -> None:
        self._fabric.remove_listener(self)


class SimNetwork:
    """See `environment.Network`: the fabric, as one host sees it."""

    def __init__(self, fabric: "SimFabric", host: str) -> None:
        self._fabric = fabric
        self._host = host

    async def listen(
        self,
        host: str,
        port: int,
        connection: ConnectionFactory,
        tls: ssl.SSLContext | None = None,
        handshakes: Handshakes | None = None,
    ) -> SimListener:
        assert tls is None, "nobody listens to this wire"
        if host not in _LOOPBACK | _ANYWHERE | {self._host}:
            raise OSError(errno.EADDRNOTAVAIL, f"{host} is not an address of {self._host}")
        return self._fabric.add_listener(self._host, host or "0.0.0.0", port, connection)

    async def connect(
        self,
        host: str,
        port: int,
        connection: ConnectionFactory,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        assert tls is None, "nobody listens to this wire"
        target = self._host if host in _LOOPBACK | _ANYWHERE else host
        await self._fabric.knock(self._host, target)
        listener = self._fabric.listener(target, port, seen_from=self._host)
        if listener is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens on {host}:{port}")
        here, there = self._fabric.join(self._host, (host, port), listener)
        context = copy_context()
        asyncio.get_running_loop().call_later(
            self._fabric.delay(), _accept, there, listener, context=listener.context.copy()
        )
        context.run(here.begin, connection, context)


class SimFabric:
    """The wire between all hosts, and what can be done to it."""

    def __init__(
        self,
        seed: int | str = 0,
        *,
        delay_s: tuple[float, float] = DELAY_S,
        retransmission_timeout_s: float = RETRANSMISSION_TIMEOUT_S,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
    ) -> None:
        self.retransmission_timeout_s = retransmission_timeout_s
        self.delay_s = delay_s
        self.reset_probability = 0.0  # of each piece that is delivered
        self.split_probability = 0.4  # of what could arrive together: each piece costs an event
        self._connect_timeout_s = connect_timeout_s
        self._random = random.Random(f"{seed}/fabric")
        self._hosts: dict[str, SimNetwork] = {}
        self._listeners: dict[Address, SimListener] = {}
        self._transports: list[SimTransport] = []
        self._swept_at = 64
        self._cuts: set[tuple[str, str]] = set()
        self._slow: dict[frozenset[str], tuple[float, float]] = {}
        self._down: set[str] = set()
        self._next_port = FIRST_FREE_PORT

    def network(self, host: str) -> SimNetwork:
        return self._hosts.setdefault(host, SimNetwork(self, host))

    # --- what can be done to it ---------------------------------------------------------------

    def cut(self, one: str, other: str, *, one_way: bool = False) -> None:
        """Nothing gets from `one` to `other` nor, unless `one_way`, back.  Connections stay."""
        self._cuts.add((one, other))
        if not one_way:
            self._cuts.add((other, one))

    def isolate(self, host: str) -> None:
        for other in self._hosts:
            if other != host:
                self.cut(host, other)

    def slow(self, one: str, other: str, delay_s: tuple[float, float]) -> None:
        """From now on every piece between the two takes so long."""
        self._slow[frozenset((one, other))] = delay_s

    def heal(self, one: str | None = None, other: str | None = None) -> None:
        """Restore the wire between two hosts, all wires of one, or all there are."""
        named = {name for name in (one, other) if name is not None}
        self._cuts = {pair for pair in self._cuts if not named <= set(pair)}
        self._slow = {pair: delay for pair, delay in self._slow.items() if not named <= pair}
        self._wake_all()

    def reset(self, one: str, other: str | None = None) -> None:
        """Break the connections between two hosts, or all of one."""
        for end in list(self._transports):
            if end.host == one and other in (None, end.peer_host):
                end.reset()

    def vanish(self, host: str) -> None:
        """The host loses its power.  It is down until `up`, and nobody is told."""
        self._down.add(host)
        self._end_host(host, SimTransport.vanish)

    def kill(self, host: str) -> None:
        """The host's process is gone; its kernel ends its connections."""
        self._end_host(host, SimTransport.kill)

    def up(self, host: str) -> None:
        self._down.discard(host)
        self._wake_all()

    def resume(self) -> None:
        """A process that was paused reads again."""
        self._wake_all()

    # --- for transports and networks ------------------------------------------------------------

    def delay(self, one: str = "", other: str = "") -> float:
        delay_s = self._slow.get(frozenset((one, other))) if self._slow else None
        return self._random.uniform(*(delay_s or self.delay_s))

    def piece(self, available: int) -> int:
        """How many of the bytes arrive together."""
        most = min(available, READ_BYTES_MAX)
        style = self._random.random()
        if style >= self.split_probability:
            return most
        return self._random.randint(
            1, min(most, 16) if style < self.split_probability / 2 else most
        )

    def breaks(self) -> bool:
        return self.reset_probability > 0 and self._random.random() < self.reset_probability

    def reaches(self, one: str, other: str) -> bool:
        if one in self._down or other in self._down:
            return False
        return (one, other) not in self._cuts

    async def knock(self, one: str, other: str) -> None:
        """Wait until a connection could be made; a kernel tries again after 1, 2, 4... seconds."""
        if other not in self._hosts:
            raise OSError(errno.EHOSTUNREACH, f"there is no host {other}")
        waited, pause = 0.0, 1.0
        await asyncio.sleep(self.delay())
        while not (self.reaches(one, other) and self.reaches(other, one)):
            if waited >= self._connect_timeout_s:
                raise TimeoutError(errno.ETIMEDOUT, f"no answer from {other}")
            await asyncio.sleep(pause)
            waited, pause = waited + pause, pause * 2

    def add_listener(
        self, host: str, name: str, port: int, connection: ConnectionFactory
    ) -> SimListener:
        number = port or self._free_port()
        taken = self._listeners.get((host, number))
        if taken is not None and taken.alive:
            raise OSError(errno.EADDRINUSE, f"port {number} of {host} is in use")
        listener = SimListener(self, host, (name, number), connection)
        self._listeners[host, number] = listener
        return listener

    def listener(self, host: str, port: int, *, seen_from: str) -> SimListener | None:
        found = self._listeners.get((host, port))
        if found is None or not found.alive or (found.only_local and seen_from != host):
            return None
        return found

    def remove_listener(self, listener: SimListener) -> None:
        key = (listener.host, listener.address[1])
        if self._listeners.get(key) is listener:
            del self._listeners[key]

    def join(
        self, host: str, target: Address, listener: SimListener
    ) -> tuple[SimTransport, SimTransport]:
        name = target[0] if target[0] in _LOOPBACK else host
        address = (name, self._free_port())
        here = SimTransport(self, host, address, target)
        there = SimTransport(self, listener.host, target, address)
        here.join(there)
        self._transports += (here, there)
        return here, there

    def sweep(self) -> None:
        """Forget ends that are over, when they may have become many."""
        if len(self._transports) >= self._swept_at:
            self._transports = [end for end in self._transports if not end.finished]
            self._swept_at = 64 + 2 * len(self._transports)

    def _free_port(self) -> int:
        self._next_port += 1
        return self._next_port

    def _end_host(self, host: str, end: Callable[[SimTransport], None]) -> None:
        for key in [key for key in self._listeners if key[0] == host]:
            del self._listeners[key]
        for transport in [each for each in self._transports if each.host == host]:
            end(transport)

    def _wake_all(self) -> None:
        for transport in list(self._transports):
            transport.wake()


def _accept(transport: SimTransport, listener: SimListener) -> None:
    """The server's end of a new connection, in the life of its listener."""
    if not transport.is_closing():
        transport.begin(listener.connection, copy_context())


def _reset_by_peer() -> ConnectionResetError:
    return ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
