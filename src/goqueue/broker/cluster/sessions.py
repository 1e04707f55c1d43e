"""Which nodes are alive, as the controller hears it.

    registered ── heartbeat, caught up ──> active ── silent for a session, or its port refuses
        ^                                                                       │
        └───────────────────────────────────────────────────────────────────────┘

Time is the monotonic clock's.  The end of a connection is news: when a process ends, its kernel
closes its sockets.  So the node is asked at once whether anybody listens there.  "Refused" means
that nobody does, and no session is waited for; no answer may be the network, and the session
decides.  A controller that hears no majority is probably cut off itself: where the others may elect
another one, it gives them time for that before it judges anybody.

What to do about a silent node is not decided here.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from goqueue.cluster import Node
from goqueue.cluster.errors import NodeNotFound
from goqueue.model.errors import DuplicateNodeId, GoQueueError
from goqueue.model.ids import Instant, NodeEpoch, NodeId
from goqueue.runtime import Clock

SESSION_NS: Final = 750_000_000  # unless `cluster.session_ms` is another; see ADR 57
CUT_OFF_NS: Final = 2_500_000_000  # by then the others have another controller
CUT_OFF_SESSIONS: Final = 3  # the same for longer sessions
CHECK_SECONDS: Final = 0.05

_log = structlog.get_logger("goqueue.cluster")


class NodeSession:
    def __init__(self, node: Node, catch_up_to: int, now: Instant) -> None:
        self.epoch = node.epoch
        self.address = node.addresses.get("cluster")
        self.heard_at = now
        self.applied = 0  # the first index of the metadata that the node does not show yet
        self.catch_up_to = catch_up_to  # before it is active
        self.is_active = node.is_live  # as the metadata has it


class NodeSessions:
    def __init__(
        self,
        clock: Clock,
        is_refused: Callable[[NodeId], Awaitable[bool]],
        on_changed: Callable[[NodeId, NodeEpoch, bool], Awaitable[None]],
        *,
        is_elected: bool = False,
        session_ns: int = SESSION_NS,
    ) -> None:
        """`is_refused` tries to reach the node; `on_changed` hears whether it is active.

        `is_elected`: the other nodes may elect another controller.
        """
        self.session_ns = session_ns
        self._cut_off_ns = max(CUT_OFF_NS, CUT_OFF_SESSIONS * session_ns)
        self._is_elected = is_elected
        self._clock = clock
        self._is_refused = is_refused
        self._on_changed = on_changed
        self._sessions: dict[NodeId, NodeSession] = {}
        self._lost: set[NodeId] = set()  # whose connection has ended, to be looked after
        self._wake = asyncio.Event()
        self._is_deaf = False

    def stop_judging(self) -> None:
        """This node stops: it hears nobody any more, and that says nothing about the others."""
        self._is_deaf = True

    def find(self, node_id: NodeId) -> NodeSession | None:
        return self._sessions.get(node_id)

    @property
    def active(self) -> list[NodeId]:
        return sorted(each for each, session in self._sessions.items() if session.is_active)

    def positions(self) -> list[tuple[NodeId, int, int]]:
        """How far each node shows the metadata, and how many milliseconds ago it said so."""
        now = self._clock.instant()
        return [
            (node_id, session.applied, max(0, now - session.heard_at) // 1_000_000)
            for node_id, session in sorted(self._sessions.items())
        ]

    def begin(self, node: Node, catch_up_to: int, *, grace_ns: int = 0) -> None:
        """The node has registered; an earlier process of it is not heard any more.

        `grace_ns` is on top of its session: it may not know yet that it is waited for.  Below 0 it
        has been silent for a while.
        """
        now = Instant(self._clock.instant() + grace_ns)
        self._sessions[node.node_id] = NodeSession(node, catch_up_to, now)
        self._lost.discard(node.node_id)
        self._wake.set()

    def forget_all(self) -> None:
        """Another node is the controller."""
        self._sessions.clear()
        self._lost.clear()

    def beat(self, node_id: NodeId, epoch: NodeEpoch, applied: int) -> bool:
        """False when the node is not registered.

        Raises `DuplicateNodeId` when it has registered since, with another process.
        """
        session = self._sessions.get(node_id)
        if session is None:
            return False
        if epoch != session.epoch:
            raise DuplicateNodeId(
                f"another process has registered as node {node_id} since: this one must stop"
            )
        session.heard_at, session.applied = self._clock.instant(), applied
        self._lost.discard(node_id)
        if not session.is_active:
            self._wake.set()
        return True

    def connection_lost(self, node_id: NodeId) -> None:
        if node_id in self._sessions:
            self._lost.add(node_id)
            self._wake.set()

    # --- running ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled."""
        looked_at = self._clock.instant()
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._wake.clear()
                looked_at = self._excuse_own_absence(looked_at)
                for node_id in sorted(self._lost):
                    tasks.create_task(self._look_after(node_id))
                self._lost.clear()
                for node_id, session in list(self._sessions.items()):
                    await self._check(node_id, session)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(CHECK_SECONDS):
                        await self._wake.wait()

    def _excuse_own_absence(self, looked_at: Instant) -> Instant:
        """Whoever did not run itself has heard nobody, and judges nobody by it."""
        now = self._clock.instant()
        if now - looked_at > self.session_ns // 2:
            for session in self._sessions.values():
                if session.is_active:
                    session.heard_at = now
        return now

    async def _look_after(self, node_id: NodeId) -> None:
        session = self._sessions.get(node_id)
        if session is None:
            return
        heard_at = session.heard_at
        if await self._is_refused(node_id) and session.heard_at == heard_at:
            session.heard_at = Instant(self._clock.instant() - self._cut_off_ns)
            self._wake.set()

    def _silence_ns(self, session: NodeSession) -> int:
        return self._clock.instant() - session.heard_at

    def _silence_ns_max(self) -> int:
        if not self._is_elected:
            return self.session_ns
        live = [each for each in self._sessions.values() if each.is_active]
        heard = [each for each in live if self._silence_ns(each) < self.session_ns]
        is_majority = 2 * (len(heard) + 1) > len(live) + 1  # this node itself is one more
        return self.session_ns if is_majority else self._cut_off_ns

    async def _check(self, node_id: NodeId, session: NodeSession) -> None:
        if self._is_deaf:
            return
        is_heard = self._silence_ns(session) < self._silence_ns_max()
        is_active = is_heard and (session.is_active or session.applied >= session.catch_up_to)
        if is_active == session.is_active:
            return
        try:
            await self._on_changed(node_id, session.epoch, is_active)
        except NodeNotFound:  # it was removed, and nobody waits for it
            self._sessions.pop(node_id, None)
            return
        except GoQueueError as error:  # tried again at the next look
            _log.error("not noted", node=node_id, is_active=is_active, problem=str(error))
            return
        session.is_active = is_active
        _log.warning("node is active" if is_active else "node is silent", node=node_id)
