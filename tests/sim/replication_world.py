"""Three nodes that keep one partition, over the wire and on disks that fail.

The nodes are what a server has for this: a log, a partition, fetchers, sessions of followers, a
keeper of the ISR.  They talk in Kafka's Fetch over simulated connections.  The controller is
scripted: it hears whether nodes are there, elects, and grants; each node hears of that later.

Looked at after every event (`check`):

- each node shows below its high watermark what was committed there, byte for byte; and no node's
  high watermark falls while it lives
- one leader commits in an epoch
- a follower asks for no more than its disk has, and for nothing in an epoch that is over for it
- who takes writes has noted durably where its epoch begins
- whoever comes back after power loss has all that it had acknowledged

At the end all is healed, and the logs are the same: every record that was acknowledged once, none
twice; what a log knows of producers and transactions is what its records say.
"""

import asyncio
import contextlib
import random
import struct
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any
from uuid import UUID

import msgspec

from goqueue.broker import Partition
from goqueue.broker.replicas import (
    Granted,
    IsrKeeper,
    LedPartition,
    ReplicaFetchers,
    ReplicationLimits,
)
from goqueue.broker.storage.bundle import Bundle
from goqueue.cluster.replication import (
    Follower,
    IsrProposal,
    Leader,
    Offline,
    Role,
    choose_leader,
    eligible_after,
)
from goqueue.log import Log, epochs, open_log
from goqueue.log.replica import Replica
from goqueue.model import batch as batches
from goqueue.model.batch import TRANSACTIONAL
from goqueue.model.errors import GoQueueError, InvalidProducerEpoch, OutOfOrderSequence, Uncertain
from goqueue.model.ids import (
    NO_NODE_EPOCH,
    Epoch,
    NodeEpoch,
    NodeId,
    Offset,
    PartitionEpoch,
    PartitionId,
    Timestamp,
    TopicId,
    TopicIdPartition,
)
from goqueue.model.markers import Marker
from goqueue.model.record import Record
from goqueue.model.settings import topic_settings
from goqueue.runtime import Environment
from goqueue.server.kafka.replica_sessions import ReplicaSessions
from goqueue.testing.sim import SimDisk, World
from goqueue.wire.fetch import FetchRequest, decode_fetch
from goqueue.wire.replica_fetch import (
    VERSION,
    ReplicaFetchResponse,
    decode_replica_fetch,
    encode_replica_fetch,
)
from tests.unit.log.replicated_logs import state_of

TOPIC = TopicId(UUID(int=7))
KEY = TopicIdPartition(TOPIC, 0)
NOW = Timestamp(1_750_000_000_000)
NODES = (NodeId(1), NodeId(2), NodeId(3))
PORT = 7000
SETTINGS = topic_settings(
    {"segment.bytes": "2048", "index.interval.bytes": "200", "min.insync.replicas": "2"}
)
SILENCE_S = 0.6  # after which a node is fenced
LIMITS = ReplicationLimits(
    wait_ms=200, timeout_seconds=0.5, partition_bytes=1500, response_bytes=4000
)
_HEAD = struct.Struct(">ii")


def host_of(node: int) -> str:
    return f"n{node}"


# --- the wire -------------------------------------------------------------------------------------


class Frames(asyncio.Protocol):
    """Frames with a number in front; on the server's side they are answered one by one."""

    def __init__(self, serve: Callable[[bytes], Awaitable[bytes]] | None = None) -> None:
        self._serve = serve
        self._data = bytearray()
        self._requests: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._answer: asyncio.Future[bytes] | None = None
        self.transport: asyncio.Transport
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if self._serve is not None:
            self._task = asyncio.ensure_future(self._run())

    def data_received(self, data: bytes) -> None:
        self._data += data
        while len(self._data) >= _HEAD.size:
            size, number = _HEAD.unpack_from(self._data)
            if len(self._data) < _HEAD.size + size:
                return
            body = bytes(self._data[_HEAD.size : _HEAD.size + size])
            del self._data[: _HEAD.size + size]
            if self._serve is not None:
                self._requests.put_nowait((number, body))
            elif self._answer is not None and not self._answer.done():
                self._answer.set_result(body)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        if self._task is not None:
            self._task.cancel()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionResetError())

    async def _run(self) -> None:
        assert self._serve is not None
        while True:
            number, body = await self._requests.get()
            answer = await self._serve(body)
            self.transport.write(_HEAD.pack(len(answer), number) + answer)

    async def ask(self, body: bytes, timeout_s: float) -> bytes:
        if self.is_lost:
            raise ConnectionResetError
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(_HEAD.pack(len(body), 0) + body)
        try:
            async with asyncio.timeout(timeout_s):
                return await self._answer
        finally:
            self._answer = None


class Caller:
    """Asks a host, on a connection that is made again when it broke."""

    def __init__(self, environment: Environment, host: str) -> None:
        self._network = environment.network
        self._host = host
        self._frames: Frames | None = None

    async def ask(self, body: bytes, timeout_s: float) -> bytes:
        try:
            async with asyncio.timeout(timeout_s):
                if self._frames is None or self._frames.is_lost:
                    self._frames = frames = Frames()
                    try:
                        await self._network.connect(self._host, PORT, lambda: frames)
                    except BaseException:
                        self._frames = None
                        raise
                return await self._frames.ask(body, timeout_s)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._frames is not None and not self._frames.is_lost:
            self._frames.transport.abort()
        self._frames = None


class FetchCaller:
    """See `LeaderNode`; tells the world what is asked."""

    def __init__(self, node: "Node", leader: NodeId) -> None:
        self._node = node
        self._caller = Caller(node.environment, host_of(leader))

    async def fetch(self, request: FetchRequest, timeout_seconds: float) -> ReplicaFetchResponse:
        self._node.note_asked(request)
        raw = await self._caller.ask(b"F" + bytes(encode_replica_fetch(request)), timeout_seconds)
        return decode_replica_fetch(memoryview(raw))

    def close(self) -> None:
        self._caller.close()


# --- the controller -------------------------------------------------------------------------------


class Image(msgspec.Struct, frozen=True):
    leader: NodeId | None
    leader_epoch: int
    partition_epoch: int
    isr: frozenset[NodeId]
    elr: frozenset[NodeId] = frozenset()
    is_unclean: bool = False


class Controller:
    """What it decides is at once so: consensus is somebody else's affair."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self.image = Image(NODES[0], 0, 0, frozenset(NODES))
        self.fenced: set[NodeId] = set()
        self.node_epochs = dict.fromkeys(NODES, NodeEpoch(0))
        self.directories: dict[NodeId, str] = {}
        self._heard = dict.fromkeys(NODES, 0.0)
        self.is_deaf = False  # to proposals; it still hears who is there
        self.grants = self.refusals = self.elections = 0

    def register(self, node: NodeId, directory: str) -> NodeEpoch:
        """A new process.  With another disk it has nothing of what it had."""
        self.node_epochs[node] = NodeEpoch(self.node_epochs[node] + 1)
        self.fenced.discard(node)
        self._heard[node] = self._cluster.world.loop.time()
        is_new_disk = self.directories.setdefault(node, directory) != directory
        self.directories[node] = directory
        if is_new_disk:
            self.drop_copies(node)
        elif self.image.leader in (node, None):
            self._elect(anew=True)
        return self.node_epochs[node]

    def drop_copies(self, node: NodeId) -> None:
        isr, elr = self.image.isr - {node}, self.image.elr - {node}
        self.image = msgspec.structs.replace(self.image, isr=isr, elr=elr)
        self._elect(anew=self.image.leader in (node, None))

    def grant(self, sender: NodeId, proposal: IsrProposal) -> Granted | None:
        image = self.image
        wanted = (image.leader, image.leader_epoch, image.partition_epoch)
        if wanted != (sender, proposal.leader_epoch, proposal.partition_epoch):
            self.refusals += 1
            return None
        for member in proposal.isr:
            is_same = member.node_epoch in (NO_NODE_EPOCH, self.node_epochs[member.node])
            if member.node in self.fenced or not is_same:
                self.refusals += 1
                return None
        self._change(image.leader, frozenset(member.node for member in proposal.isr))
        self.grants += 1
        return Granted(PartitionEpoch(self.image.partition_epoch), self.image.isr)

    def fence(self, node: NodeId) -> None:
        if node not in self.fenced:
            self.fenced.add(node)
            self._elect()

    def admit(self, node: NodeId) -> None:
        if node in self.fenced:
            self.fenced.discard(node)
            if self.image.leader is None:
                self._elect()

    def hand_over(self, node: NodeId) -> None:
        """Another in-sync replica leads; nothing is wrong with the one that did."""
        if node in self.image.isr - self.fenced:
            self._change(node, self.image.isr - self.fenced, anew=True)

    def elect_wrongly(self, node: NodeId, *, is_unclean: bool) -> None:
        self._change(node, frozenset((node,)), anew=True, is_unclean=is_unclean)

    def listen(self) -> None:
        """Who is heard lives; who was not for a while is fenced."""
        world, now = self._cluster.world, self._cluster.world.loop.time()
        for node in NODES:
            host = host_of(node)
            is_heard = world.alive(host) and not world.is_paused(host)
            if is_heard and world.fabric.reaches(host, "controller"):
                self._heard[node] = now
                if self._cluster.nodes.get(node) is not None:
                    self.admit(node)
            elif now - self._heard[node] > SILENCE_S:
                self.fence(node)

    def _elect(self, *, anew: bool = False) -> None:
        image = self.image
        leader, isr = image.leader, image.isr - self.fenced
        if leader is None or leader in self.fenced or anew:
            election = choose_leader(
                NODES,
                isr=image.isr,
                elr=image.elr,
                is_available=lambda node: node not in self.fenced,
            )
            leader, isr = election.leader, election.isr
        self._change(leader, isr, anew=anew)

    def _change(
        self,
        leader: NodeId | None,
        isr: frozenset[NodeId],
        *,
        anew: bool = False,
        is_unclean: bool = False,
    ) -> None:
        image = self.image
        elr = eligible_after(
            isr_before=image.isr,
            isr=isr,
            elr_before=image.elr,
            min_insync_replicas=SETTINGS.min_insync_replicas,
            replication_factor=len(NODES),
        )
        is_new = anew or leader != image.leader
        self.elections += is_new
        self.image = Image(
            leader,
            image.leader_epoch + is_new,
            image.partition_epoch + 1,
            isr,
            elr,
            is_unclean if is_new else image.is_unclean,
        )
        self._cluster.note(f"{self.image}")


# --- a node ---------------------------------------------------------------------------------------


class Node:
    """One life of a node's process."""

    def __init__(self, cluster: "Cluster", node: NodeId, environment: Environment) -> None:
        self.cluster = cluster
        self.node = node
        self.environment = environment
        self.node_epoch = NO_NODE_EPOCH
        self.asked = Offset(0)  # the most that it acknowledged; not above the log's end
        self.checked = Offset(0)  # what it shows below is what was committed
        self.shown = Offset(0)  # the high watermark, which does not fall
        self.led_epoch: Epoch | None = None  # the last one that was looked at
        self.problems: list[str] = []
        self._has_waits = False
        self.bundle = Bundle("topic", TOPIC, PartitionId(0), None)
        self.partition: Partition
        self.fetchers: ReplicaFetchers
        self.keeper: IsrKeeper

    @property
    def log(self) -> Log:
        return self.partition.log

    async def live(self) -> None:
        environment = self.environment
        log, recovery = await environment.disk.in_background(
            lambda: open_log(environment.disk, "/log", SETTINGS, Replica(TOPIC, 0))
        )
        self.cluster.note_opened(self.node, log, lost=recovery.lost is not None)
        self.partition = Partition(
            "topic",
            TOPIC,
            PartitionId(0),
            log,
            Offline("it has just started", max(log.epochs.latest, Epoch(0))),
            environment.disk,
            lambda _partition: None,
            lambda _partition, _seconds, _error: None,
            self._note_wait,
        )
        self.fetchers = ReplicaFetchers(
            environment.clock,
            node=self.node,
            node_epoch=lambda: self.node_epoch,
            connect=lambda leader: FetchCaller(self, leader),
            on_problem=lambda _replica, error: self.problems.append(str(error)),
            limits=LIMITS,
        )
        self.bundle.add(self.partition)
        self.keeper = IsrKeeper(environment.clock, self, lambda: [self.bundle])
        sessions = ReplicaSessions(
            environment.clock,
            1 << 20,
            self._find_log,
            lambda _partition: self.keeper.look_soon(self.bundle),
        )
        self.sessions = sessions
        directory = environment.disk.read_file("/directory")
        if directory is None:
            directory = f"{self.node}/{environment.random.bytes(4).hex()}".encode()
            environment.disk.replace_file("/directory", directory)
        name = directory.decode()
        while self.node_epoch == NO_NODE_EPOCH:
            with contextlib.suppress(Uncertain):
                self.node_epoch = await self._ask_controller(
                    lambda: self.cluster.controller.register(self.node, name)
                )
        self.checked = self.shown = log.start_offset
        self.cluster.nodes[self.node] = self
        await environment.network.listen("0.0.0.0", PORT, lambda: Frames(self._serve))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.keeper.run())
            tasks.create_task(self._follow_image())
            tasks.create_task(self._keep())

    def _note_wait(self, _partition: Partition) -> None:
        self._has_waits = True

    async def _keep(self) -> None:
        """What the store of partitions does in the background."""
        chance = random.Random(f"{self.cluster.world.seed}/{self.node}/{self.node_epoch}")
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(0.1)
            if self._has_waits:
                self._has_waits = self.partition.end_overdue(loop.time())
            if self.log.needs_sync and chance.random() < 0.3:
                self.partition.demand_flush()
            if chance.random() < 0.1:
                self.log.store_watermark()
            if chance.random() < 0.03 and self.log.needs_checkpoint and not self.log.failed:
                with contextlib.suppress(GoQueueError):
                    await self.partition.checkpoint()

    # --- roles ------------------------------------------------------------------------------------

    async def _ask_controller(self, work: Callable[[], Any]) -> Any:
        """Over a wire that may be cut; raises `Uncertain`, and it may be done."""
        fabric, host = self.cluster.world.fabric, host_of(self.node)
        await asyncio.sleep(fabric.delay())
        if fabric.reaches(host, "controller"):
            answer = work()
            await asyncio.sleep(fabric.delay())
            if fabric.reaches("controller", host):
                return answer
        await asyncio.sleep(0.3)
        raise Uncertain("no answer")

    async def alter_isr(self, partition: LedPartition, proposal: IsrProposal) -> Granted | None:
        def grant() -> Granted | None:
            return self.cluster.controller.grant(self.node, proposal)

        if self.cluster.controller.is_deaf:
            await asyncio.sleep(0.3)
            raise Uncertain("no answer")
        granted: Granted | None = await self._ask_controller(grant)
        return granted

    async def _follow_image(self) -> None:
        seen: Image | None = None
        fabric = self.cluster.world.fabric
        while True:
            image = self.cluster.controller.image
            if image is seen or not fabric.reaches("controller", host_of(self.node)):
                await asyncio.sleep(0.02)
                continue
            await asyncio.sleep(fabric.delay())
            try:
                await self.take_image(image)
                seen = image
            except GoQueueError:  # to lead takes room on the disk
                await asyncio.sleep(0.1)

    async def take_image(self, image: Image) -> None:
        epoch, before = Epoch(image.leader_epoch), self.bundle.role
        role: Role
        if image.leader is None:
            role = Offline("nobody leads", epoch)
        elif image.leader != self.node:
            role = Follower(image.leader, epoch)
        else:
            role = Leader(
                node=self.node,
                epoch=epoch,
                partition_epoch=PartitionEpoch(image.partition_epoch),
                replicas=NODES,
                isr=image.isr,
            )
            if isinstance(before, Leader) and before.epoch == epoch:
                if role.partition_epoch > before.partition_epoch:
                    self.bundle.change_role(role)
                await self.bundle.lead()
                return
        if role != before:
            await self.change_role(role, is_unclean=image.is_unclean)

    async def change_role(self, role: Role, *, is_unclean: bool) -> None:
        self.bundle.change_role(role)
        await self.fetchers.stop(KEY)
        if isinstance(role, Leader):
            await self.bundle.lead()
        elif isinstance(role, Follower):
            await self.prepare_to_follow()
            self.fetchers.follow(KEY, self.partition, is_unclean=is_unclean)

    async def prepare_to_follow(self) -> None:
        """Nothing is given up before the leader says so."""

    # --- requests ---------------------------------------------------------------------------------

    async def _find_log(self, topic_id: UUID, index: int) -> Partition:
        assert (topic_id, index) == KEY
        return self.partition

    async def _serve(self, body: bytes) -> bytes:
        if body[:1] == b"F":
            request = decode_fetch(VERSION, memoryview(body)[1:])
            return b"".join(await self.sessions.fetch(request))
        try:
            return b"+" + await (
                self._produce(body[1:]) if body[:1] == b"P" else self._end(body[1:])
            )
        except (OutOfOrderSequence, InvalidProducerEpoch) as error:
            return b"!" + str(error).encode()
        except GoQueueError as error:
            return b"-" + str(error).encode()

    async def _produce(self, data: bytes) -> bytes:
        self.partition.check_leader()
        self.partition.check_enough_replicas()
        headers = batches.verified_headers(data)
        appended = self.partition.append(bytearray(data), headers, NOW)
        await self.partition.wait_committed(appended.last_offset, 2.0)
        return struct.pack(">q", appended.first_offset)

    async def _end(self, data: bytes) -> bytes:
        self.partition.check_leader()
        self.partition.check_enough_replicas()
        producer, commits = struct.unpack(">q?", data)
        offset = self.partition.append_marker(Marker(producer, 0, 0, commits=commits), NOW)
        await self.partition.wait_committed(offset, 2.0)
        return struct.pack(">q", offset)

    # --- for the world ----------------------------------------------------------------------------

    def note_asked(self, request: FetchRequest) -> None:
        """What leaves this node as its word."""
        role = self.partition.role
        for topic in request.topics:
            for wanted in topic.partitions:
                assert isinstance(role, Follower), f"{self.node} asks as {role}"
                assert wanted.current_leader_epoch == role.epoch, f"{self.node} asks as of before"
                assert wanted.fetch_offset <= self.log.synced_offset, "it asks ahead of its disk"
                self.asked = max(self.asked, Offset(wanted.fetch_offset))


# --- the whole ------------------------------------------------------------------------------------


class Cluster:
    def __init__(self, seed: int | str, *, producers: int = 3) -> None:
        self.world = World(seed)
        self.random = self.world.random
        self.controller = Controller(self)
        self.nodes: dict[NodeId, Node] = {}  # those that have begun to work
        self.committed: dict[Offset, tuple[int, int]] = {}  # base offset: checksum and epoch
        self.committers: dict[int, NodeId] = {}
        self.acked: dict[bytes, Offset] = {}
        self.sent = 0
        self.history: list[str] = []
        self._owed: dict[NodeId, Offset] = {}  # what a dead node's disk must have
        self.checks_commits = True  # False once a leader was elected that lacks some
        self._stops = False
        self._clients: list[asyncio.Task[None]] = []
        self.world.fabric.network("controller")
        for node in NODES:
            self.start(node)
        for number in range(producers):
            work = self._produce_on(number, is_transactional=number == producers - 1)
            self._clients.append(self._task(work))
        self._listening = self._task(self._listen())
        self.world.after_each(self.check)

    def _task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self.world.loop.create_task(work)

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_error: object) -> None:
        if _error[1] is not None and isinstance(_error[1], BaseException):
            _error[1].add_note("\n".join(self.history[-40:]))
        self.world.close()

    def note(self, text: str) -> None:
        self.history.append(f"{self.world.loop.time():9.4f} {text}")

    # --- nodes ------------------------------------------------------------------------------------

    def start(self, node: NodeId) -> None:
        async def live(environment: Environment) -> None:
            await Node(self, node, environment).live()

        self.note(f"{node} starts")
        self.world.start(host_of(node), live)

    def lose_power(self, node: NodeId) -> None:
        self._ends(node)
        chance = self.random.random()
        self.world.power_loss(host_of(node), in_order=chance < 0.3, holes=chance > 0.7)
        self.note(f"{node} loses its power")

    def kill(self, node: NodeId) -> None:
        self._ends(node)
        self.world.kill(host_of(node))
        self.note(f"{node} is killed")

    def lose_disk(self, node: NodeId) -> None:
        self.kill(node)
        self._owed.pop(node, None)
        self.world.replace_disk(host_of(node))
        self.note(f"{node} gets an empty disk")

    def _ends(self, node: NodeId) -> None:
        at = self.nodes.pop(node, None)
        if at is not None and not at.log.rewriting:
            self._owed[node] = at.asked
        elif at is not None:
            self._owed.pop(node, None)

    def note_opened(self, node: NodeId, log: Log, *, lost: bool) -> None:
        assert not lost, f"{node} says that its disk lost something"
        owed = self._owed.pop(node, Offset(0))
        assert log.end_offset >= owed, f"{node} acknowledged {owed} and has {log.end_offset}"

    def living(self) -> list[NodeId]:
        return [node for node in NODES if self.world.alive(host_of(node))]

    async def _listen(self) -> None:
        while True:
            await asyncio.sleep(0.1)
            self.controller.listen()

    # --- clients ----------------------------------------------------------------------------------

    async def _produce_on(self, number: int, *, is_transactional: bool) -> None:
        chance = random.Random(f"{self.world.seed}/producer {number}")
        environment = self.world.environment(f"client{number}")
        callers = {node: Caller(environment, host_of(node)) for node in NODES}
        sequence, producer = 0, 100 + number
        while not self._stops:
            for _ in range(chance.randrange(1, 4) if is_transactional else 1):
                values = [
                    f"{number}/{sequence + index}".encode()
                    for index in range(chance.randrange(1, 4))
                ]
                data = batches.encode(
                    [Record(0, NOW, None, value + b" " * chance.randrange(60)) for value in values],
                    attributes=TRANSACTIONAL if is_transactional else 0,
                    producer=(producer, 0, sequence),
                )
                self.sent += len(values)
                offset = await self._ask_leader(callers, b"P" + bytes(data), chance)
                for index, value in enumerate(values):
                    self.acked[value] = Offset(offset + index)
                sequence += len(values)
                await asyncio.sleep(chance.choice((0.0, 0.005, 0.05)))
            if is_transactional:
                marker = struct.pack(">q?", producer, chance.random() < 0.5)
                await self._ask_leader(callers, b"M" + marker, chance)

    async def _ask_leader(
        self, callers: dict[NodeId, Caller], body: bytes, chance: random.Random
    ) -> int:
        """Until it is acknowledged."""
        while True:
            leader = self.controller.image.leader
            if leader is None or chance.random() < 0.05:
                leader = chance.choice(NODES)
            try:
                answer = await callers[leader].ask(body, 3.0)
            except OSError:
                await asyncio.sleep(0.1)
                continue
            assert answer[:1] != b"!", answer
            if answer[:1] == b"+":
                return int(struct.unpack(">q", answer[1:])[0])
            await asyncio.sleep(chance.uniform(0.01, 0.1))

    # --- what must hold ---------------------------------------------------------------------------

    def check(self) -> None:
        for node in self.nodes.values():
            log = node.partition.log
            if node.asked > log.end_offset:
                node.asked = log.end_offset
            if log.high_watermark != node.checked and self.checks_commits:
                self._check_shown(node)
            if node.partition.leads and node.led_epoch != node.partition.leader_epoch:
                self._check_epoch(node)

    def _check_epoch(self, node: Node) -> None:
        node.led_epoch = node.partition.leader_epoch
        disk = self.world.disk(host_of(node.node))
        noted = epochs.load(disk.crash(f"epoch {node.led_epoch}"), "/log")
        assert noted, f"{node.node} leads, and its disk does not know any epoch"
        assert noted[-1].epoch == node.led_epoch, f"{node.node} leads, and its disk knows {noted}"

    def _check_shown(self, node: Node) -> None:
        log, role = node.log, node.partition.role
        watermark = log.high_watermark
        assert watermark >= node.shown, f"{node.node} shows {watermark}, it showed {node.shown}"
        node.shown = watermark
        if isinstance(role, Leader):
            committer = self.committers.setdefault(role.epoch, node.node)
            assert committer == node.node, f"two leaders commit in epoch {role.epoch}"
        start = max(node.checked, log.start_offset)
        while start < watermark:
            chunk = log.read(start, 1 << 20, watermark)
            for header in batches.verified_headers(chunk.data):
                found = (header.crc, header.leader_epoch)
                if isinstance(role, Leader):
                    self.committed.setdefault(header.base_offset, found)
                known = self.committed.get(header.base_offset)
                assert known == found, (
                    f"{node.node} shows {found} at offset {header.base_offset}, it is {known}"
                )
            start = chunk.next_offset
        node.checked = watermark

    # --- the end ----------------------------------------------------------------------------------

    def heal(self) -> None:
        """Nothing more goes wrong: all become the same, and have what was acknowledged."""
        world = self.world
        self.note("all is healed")
        world.fabric.heal()
        self.controller.is_deaf = False
        for node in NODES:
            host = host_of(node)
            if world.is_paused(host):
                world.resume(host)
            at = self.nodes.get(node)
            if at is not None and at.log.failed is not None:
                self.kill(node)  # as an operator would, once there is room
            world.disk(host).make_room()
            world.disk(host).slow_syncs(0.0, 0.0)
            if not world.alive(host):
                self.start(node)
        self._stops = True
        world.run_until(lambda: all(client.done() for client in self._clients), limit_s=60)
        world.run_until(self.agrees, limit_s=60)
        self.check_logs()

    def agrees(self) -> bool:
        if len(self.nodes) < len(NODES) or self.controller.image.isr != frozenset(NODES):
            return False
        places = {
            place
            for node in self.nodes.values()
            for place in (node.log.high_watermark, node.log.end_offset)
        }
        return len(places) == 1

    def check_logs(self) -> None:
        contents = [_content(node.log) for node in self.nodes.values()]
        assert contents[0] == contents[1] == contents[2], "the logs differ"
        found: dict[bytes, Offset] = {}
        for record in batches.decode_all(contents[0]):
            value = bytes(record.value or b"").rstrip()
            if b"/" in value:  # else it is a marker
                assert value not in found, f"{value!r} is at {found[value]} and {record.offset}"
                found[value] = Offset(record.offset)
        lost = {value: place for value, place in self.acked.items() if found.get(value) != place}
        assert not lost, f"acknowledged and lost: {lost}"
        for node in self.nodes.values():
            check_state(node.log)


def _content(log: Log) -> bytes:
    return b"".join(segment.log.read(0, segment.size) for segment in log.segments)


def check_state(log: Log) -> None:
    """What the log knows is what somebody learns who reads it from the start."""
    copy, _ = open_log(SimDisk(cold_reads=0.0), "/copy", SETTINGS, Replica(TOPIC, 0))
    for segment in log.segments:
        data = segment.log.read(0, segment.size)
        if data:
            copy.append_as_follower(data, leader_epoch=Epoch(10**6), now=NOW)
    copy.producers.settle(log.high_watermark)
    mine, learned = state_of(log, times=False), state_of(copy, times=False)
    if log.epochs.latest != log.last_epoch:  # it leads, and has written nothing yet
        mine = mine._replace(epochs=mine.epochs[:-1])
    assert mine == learned


# --- what goes wrong ------------------------------------------------------------------------------


class Faults:
    """Drawn from the seed, one after the other."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.chance = cluster.random
        self.counts: dict[str, int] = {}

    def run(self, steps: int) -> None:
        cluster, chance = self.cluster, self.chance
        cluster.world.run_for(0.3)
        for _ in range(steps):
            acts = [
                (self.lose_power, 3),
                (self.lose_power_of_two, 2),
                (self.kill, 3),
                (self.flicker, 3),
                (self.pause, 3),
                (self.cut, 3),
                (self.cut_one_way, 3),
                (self.isolate, 2),
                (self.slow_disk, 2),
                (self.full_disk, 1),
                (self.deafen, 1),
                (self.hand_over, 2),
                (self.lose_disk, 1),
                (self.restart, 10),
                (self.mend, 8),
            ]
            act = chance.choices([act for act, _ in acts], [weight for _, weight in acts])[0]
            if act():
                self.counts[act.__name__] = self.counts.get(act.__name__, 0) + 1
            cluster.world.run_for(chance.choice((0.01, 0.05, 0.2, 0.8, 2.0)))

    def _some(self) -> NodeId | None:
        living = self.cluster.living()
        return self.chance.choice(living) if living else None

    def lose_power(self) -> bool:
        node = self._some()
        if node is not None:
            self.cluster.lose_power(node)
        return node is not None

    def lose_power_of_two(self) -> bool:
        return [self.lose_power(), self.lose_power()][1]

    def flicker(self) -> bool:
        """Nodes lose their power while disks are busy, and are back before anybody notices."""
        chance, world = self.chance, self.cluster.world
        for node in self.cluster.living():
            world.disk(host_of(node)).slow_syncs(0.0, chance.choice((0.0, 0.3)))
        for _ in range(chance.randrange(1, 5)):
            world.run_for(chance.uniform(0.0, 0.2))
            node = self.chance.choice([*NODES, self.cluster.controller.image.leader or NODES[0]])
            if world.alive(host_of(node)) and not world.is_paused(host_of(node)):
                self.cluster.lose_power(node)
                world.run_for(chance.uniform(0.0, 0.05))
                self.cluster.start(node)
        return True

    def kill(self) -> bool:
        node = self._some()
        if node is not None:
            self.cluster.kill(node)
        return node is not None

    def pause(self) -> bool:
        node = self._some()
        if node is not None:
            self.cluster.world.pause(host_of(node))
            self.cluster.note(f"{node} is paused")
        return node is not None

    def cut(self, *, one_way: bool = False) -> bool:
        hosts = [*map(host_of, NODES), "controller"]
        one, other = self.chance.sample(hosts, 2)
        self.cluster.world.fabric.cut(one, other, one_way=one_way)
        self.cluster.note(f"cut: {one} and {other}, one way: {one_way}")
        return True

    def cut_one_way(self) -> bool:
        return self.cut(one_way=True)

    def isolate(self) -> bool:
        node = self.chance.choice(NODES)
        self.cluster.world.fabric.isolate(host_of(node))
        self.cluster.note(f"{node} is cut off")
        return True

    def slow_disk(self) -> bool:
        node = self.chance.choice(NODES)
        self.cluster.world.disk(host_of(node)).slow_syncs(0.05, 0.4)
        return True

    def full_disk(self) -> bool:
        node = self.chance.choice(NODES)
        self.cluster.world.disk(host_of(node)).fill_up(self.chance.randrange(500))
        self.cluster.note(f"{node} has a full disk")
        return True

    def deafen(self) -> bool:
        self.cluster.controller.is_deaf = True
        self.cluster.note("the controller hears no proposals")
        return True

    def hand_over(self) -> bool:
        self.cluster.controller.hand_over(self.chance.choice(NODES))
        return True

    def lose_disk(self) -> bool:
        """Of one that the others do not need: two disks at once is more than is promised."""
        controller = self.cluster.controller
        node = self._some()
        if node is None or len(controller.image.isr - {node}) < SETTINGS.min_insync_replicas:
            return False
        self.cluster.lose_disk(node)
        return True

    def restart(self) -> bool:
        dead = [node for node in NODES if not self.cluster.world.alive(host_of(node))]
        if dead:
            node = self.chance.choice(dead)
            self.cluster.world.disk(host_of(node)).make_room()
            self.cluster.start(node)
        return bool(dead)

    def mend(self) -> bool:
        world = self.cluster.world
        world.fabric.heal()
        self.cluster.controller.is_deaf = False
        for node in NODES:
            if world.is_paused(host_of(node)):
                world.resume(host_of(node))
            world.disk(host_of(node)).make_room()
            world.disk(host_of(node)).slow_syncs(0.0, 0.0)
        self.cluster.note("mended")
        return True
