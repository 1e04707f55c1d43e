"""One of several nodes becomes the controller: who, and when.

    follow ── the controller is silent, or nobody is it ──> ask the others whether they hear it
      ^                                                        │ a majority does not
      │                                                        v
      │<── another node was quicker ─────────────── claim the term, announce it in the metadata
      │                                                        │
      └── fenced │ the quorum is silent │ resigned ────────── lead

All nodes follow the metadata's log themselves, so they all know who has announced itself
(`Metadata.controller`), and register, show that they are alive and ask for decisions there.

*Silent* is a controller whose port refuses, or that has not answered for a session.  Who may claim
the term is in `goqueue.cluster.controller.election`.  A claim names the term that it follows, and
the log gives the next one once: whoever was slower sees who was quicker.  A term that somebody has
taken and not announced is waited for like a controller that is silent.

A controller looks once a second whether the term is still its own, for it may have nothing to
append.  If the quorum does not answer it stops to decide, and others that reach it may.
"""

import asyncio
import base64
from collections.abc import Callable
from typing import Final

import structlog

from goqueue.broker.cluster.controller_service import ControllerService, Handlers
from goqueue.broker.cluster.membership import FOR_GOOD, HEARTBEAT_SECONDS, Membership
from goqueue.broker.cluster.peer import Peers
from goqueue.broker.metadata.controller import Controller
from goqueue.cluster import Metadata
from goqueue.cluster.consensus import Term
from goqueue.cluster.controller import (
    Registration,
    askable,
    is_vacant,
    resign_control,
    take_control,
)
from goqueue.cluster.metadata import NO_NODE, ControllerElected
from goqueue.model.errors import Fenced, GoQueueError, QuorumUnavailable
from goqueue.model.ids import Instant, NodeId
from goqueue.runtime import Environment
from goqueue.wire.node_messages import AskController, ControllerHeard, NodeApi

LOOK_SECONDS: Final = 0.05  # after which a node looks again whether it should claim the term
JITTER_SECONDS: Final = (0.05, 0.3)  # after a claim that failed
TERM_SECONDS: Final = 1.0  # after which a controller looks again whether the term is its own
ASK_SECONDS: Final = 0.3  # for the answer of another node
RESIGN_SECONDS: Final = 2.0

_log = structlog.get_logger("goqueue.election")


def controller_addresses(metadata: Metadata, me: NodeId) -> list[str]:
    """Where the controller is; empty when nobody is it.  Raises `Fenced` at the controller."""
    holder = metadata.controller.node_id
    if holder == me:
        raise Fenced("this node itself is the controller, or was it last")
    node = metadata.nodes.get(holder)
    address = None if node is None else node.addresses.get("cluster")
    return [] if address is None else [str(address)]


class Election:
    def __init__(
        self,
        environment: Environment,
        controller: Controller,
        membership: Membership,
        service: ControllerService,
        peers: Peers,
        registration: Callable[[], Registration],
    ) -> None:
        """`registration` is this node's, at the addresses where it listens."""
        self._clock = environment.clock
        self._random = environment.random
        self._controller = controller
        self._membership = membership
        self._service = service
        self._peers = peers
        self._registration = registration
        self._seen: tuple[Term, Instant] = (Term(0), Instant(0))  # a term nobody has announced
        self._holder = self._metadata.controller  # that the membership asks
        self.problem = ""  # why this node knows of no controller, as it was told last
        self._waits_for: ControllerElected | None = None  # that was told
        self._is_leaving = False
        self._suspects: tuple[NodeId, ...] = ()  # who was the controller before this node

    @property
    def handlers(self) -> Handlers:
        return {NodeApi.ASK_CONTROLLER: self._answer}

    @property
    def _metadata(self) -> Metadata:
        return self._controller.image.current

    @property
    def _me(self) -> NodeId:
        return self._registration().node_id

    # --- life -------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled; raises when this node must not go on."""
        self._membership.turn_to_controller()  # it has a session from now on
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._run_heartbeats())
            tasks.create_task(self._run_terms())

    async def wait_until_registered(self) -> None:
        """Return when this process is a node of the cluster, and its image shows it."""
        while not (self._membership.is_registered and self._is_shown()):
            await self._clock.sleep(LOOK_SECONDS)

    def _is_shown(self) -> bool:
        node, mine = self._metadata.nodes.get(self._me), self._registration()
        return node is not None and (node.directory_id, node.incarnation) == (
            mine.directory_id,
            mine.incarnation,
        )

    async def resign(self) -> None:
        """Let another node be the controller at once; this one claims nothing any more."""
        self._is_leaving = True
        controller = self._controller
        if not controller.is_leading:
            return
        try:
            async with asyncio.timeout(RESIGN_SECONDS):
                term = controller.term
                await controller.host.submit(lambda metadata: resign_control(metadata, term))
        except (GoQueueError, TimeoutError) as error:  # they notice by themselves
            _log.warning("resigned without an announcement", problem=str(error))
        controller.step_down(Fenced("this node has resigned"))

    # --- the other nodes --------------------------------------------------------------------------

    async def _answer(self, _node_id: NodeId, request: AskController) -> ControllerHeard:
        return ControllerHeard(self._hears(request.term))

    def _hears(self, term: int) -> bool:
        known = self._metadata.controller
        if known.term != term:
            return known.term > term
        return self._controller.is_leading or self._membership.hears_controller

    async def _ask(self, node_id: NodeId, term: int) -> bool | None:
        """Whether that node hears the controller; None when it does not answer."""
        peer = self._peers.another(node_id)
        try:
            return (await peer.ask(AskController(term), ASK_SECONDS)).is_heard
        except GoQueueError:
            return False if peer.was_refused else None
        finally:
            peer.close()

    async def _run_heartbeats(self) -> None:
        while True:
            self._notice_controller()
            if self._controller.is_following and self._holder.node_id not in (NO_NODE, self._me):
                await self._show_alive()
            await self._clock.sleep(HEARTBEAT_SECONDS)

    async def _show_alive(self) -> None:
        membership = self._membership
        if membership.is_registered:
            await membership.show_alive(self._controller.position)
            return
        try:
            mine = self._registration()
            addresses = {name: str(address) for name, address in mine.addresses.items()}
            await membership.register(addresses, mine.rack, mine.machine)
        except FOR_GOOD:
            raise
        except GoQueueError as error:
            self._tell("this node cannot register", error)

    def _notice_controller(self) -> None:
        """That there is another one."""
        if self._holder != self._metadata.controller:
            self._holder = self._metadata.controller
            self._membership.turn_to_controller()

    # --- terms ------------------------------------------------------------------------------------

    async def _run_terms(self) -> None:
        while True:
            if self._controller.is_leading:
                await self._lead()
            elif self._controller.is_following and not self._is_leaving:
                try:
                    await self._look()
                except FOR_GOOD:
                    raise
                except GoQueueError as error:
                    if not isinstance(error, Fenced):  # else another node was quicker
                        self._tell("no controller: changes of metadata wait", error)
                    await self._clock.sleep(self._random.uniform(*JITTER_SECONDS))
            await self._clock.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        """Claim the term if it is vacant."""
        self._notice_controller()
        if not self._is_needed():
            if self._membership.hears_controller:
                self.problem = ""  # somebody else reached the quorum first
            return
        holder = self._holder
        term = await self._controller.log.term()
        self.problem = ""
        if term != holder.term and not self._has_waited_for(term):
            return
        if holder.node_id == self._me:
            await self._refuse_twin()
        elif not await self._is_vacant(term):
            self._tell_waiting()
            return
        if self._is_needed():  # nobody has answered meanwhile
            await self._claim(term)

    def _is_needed(self) -> bool:
        is_vacant = self._holder.node_id in (NO_NODE, self._me)
        return is_vacant or self._membership.is_controller_silent

    def _has_waited_for(self, term: Term) -> bool:
        """For whoever took it to announce itself."""
        now = self._clock.instant()
        if self._seen[0] != term:
            wait_ns = int(self._membership.session_ns * self._random.uniform(1.0, 1.3))
            self._seen = (term, Instant(now + wait_ns))
        return not term or now >= self._seen[1]

    async def _is_vacant(self, term: Term) -> bool:
        """By what the others say; whoever is silent is not waited for once enough have answered."""
        metadata, me, holder = self._metadata, self._me, self._holder.node_id
        asked = askable(metadata, me) - ({holder} if self._membership.is_controller_gone else set())
        answers: dict[NodeId, bool | None] = {}

        async def ask(node_id: NodeId) -> None:
            answers[node_id] = await self._ask(node_id, term)

        async with asyncio.TaskGroup() as tasks:
            asking = [tasks.create_task(ask(each)) for each in sorted(asked)]
            for each in asyncio.as_completed(asking):
                await each
                if holder not in asked - answers.keys() and is_vacant(metadata, me, answers):
                    break
            for task in asking:
                task.cancel()
        return is_vacant(metadata, me, answers)

    async def _refuse_twin(self) -> None:
        """Raises `DuplicateNodeId` when the controller is another process with this number."""
        node = self._metadata.nodes.get(self._me)
        if self._membership.is_registered or node is None:
            return
        if node.addresses.get("cluster") == self._registration().addresses.get("cluster"):
            return  # nobody else can listen there
        peer = self._peers.another(self._me)
        try:
            await peer.connect(ASK_SECONDS)
        except FOR_GOOD:
            raise
        except GoQueueError:
            return
        finally:
            peer.close()

    async def _claim(self, after: Term) -> None:
        controller, before = self._controller, self._holder.node_id
        await controller.claim(after)
        made = base64.urlsafe_b64encode(self._random.bytes(16)).decode().rstrip("=")
        term, mine = controller.term, self._registration()
        try:
            epoch = await controller.host.submit(
                lambda metadata: take_control(metadata, term, mine, cluster_id=made)
            )
        except GoQueueError as error:
            controller.step_down(error if isinstance(error, Fenced) else Fenced(str(error)))
            raise
        self._membership.adopt(epoch)
        self._suspects = () if before in (NO_NODE, mine.node_id) else (before,)

    # --- leading ----------------------------------------------------------------------------------

    async def _lead(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(self._service.run(self._suspects))
            checking = tasks.create_task(self._check_term())
            while self._controller.is_leading:
                await self._clock.sleep(LOOK_SECONDS)
            serving.cancel()
            checking.cancel()
        self._service.sessions.forget_all()

    async def _check_term(self) -> None:
        controller = self._controller
        while controller.is_leading:
            await self._clock.sleep(TERM_SECONDS)
            try:
                newest = await controller.log.term()
            except QuorumUnavailable as error:
                controller.step_down(error)
                return
            if newest > controller.term and controller.is_leading:
                controller.step_down(Fenced(f"another node has taken term {newest}"))

    def _tell(self, what: str, error: GoQueueError) -> None:
        """Once for each problem."""
        if self.problem != str(error):
            self.problem = str(error)
            _log.warning(what, problem=self.problem)

    def _tell_waiting(self) -> None:
        """That the controller is silent, and too few nodes say so; once for each controller."""
        holder = self._holder
        if self._waits_for != holder:
            self._waits_for = holder
            silent = "nobody" if holder.node_id == NO_NODE else f"node {holder.node_id}"
            _log.warning(
                "no controller is heard: another one needs a majority of the nodes",
                controller=silent,
                term=holder.term,
                nodes=sorted(node.node_id for node in self._metadata.nodes.members),
            )
