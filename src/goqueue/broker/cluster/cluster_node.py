"""This node among the others of its cluster: whom it follows, whom it asks, what it copies.

alone      no `cluster.listen`: nobody reaches it, and it asks nobody
voter      has the metadata; the others follow it and register with it (`ControllerService`)
follower   follows the voter's metadata (`Membership`); what only the voter decides is passed on
           (`Forwarding`)
elected    one of several nodes on etcd: each follows the metadata by itself, and any of them may be
           the controller (`Election`)
"""

from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

import msgspec

from goqueue.broker.cluster.controller_service import ControllerService
from goqueue.broker.cluster.election import Election, controller_addresses
from goqueue.broker.cluster.forwarding import Decider, Forwarding, carry_out
from goqueue.broker.cluster.handshake import Identity, load_secret
from goqueue.broker.cluster.leader_peer import LeaderPeer
from goqueue.broker.cluster.membership import Membership
from goqueue.broker.cluster.other_nodes import OtherNodes
from goqueue.broker.cluster.peer import Peers
from goqueue.broker.cluster.presence import Presence
from goqueue.broker.cluster.resignations import Resignations
from goqueue.broker.cluster.roles import Roles
from goqueue.broker.metadata.node_file import NodeFile
from goqueue.broker.replicas import CatchUpQuota, Granted, IsrKeeper, LedPartition, ReplicaManager
from goqueue.broker.storage.bundle import Bundle
from goqueue.broker.storage.partition import Partition
from goqueue.broker.storage.partition_store import Partitions
from goqueue.cluster import Metadata
from goqueue.cluster.consensus import Index
from goqueue.cluster.controller import IsrChange, Registration
from goqueue.cluster.metadata import NO_NODE, PartitionState
from goqueue.cluster.replication import IsrMember, IsrProposal, Leader
from goqueue.cluster.throttles import Copy, Side, find_copy
from goqueue.model.config import Address, ClusterConfig, Config
from goqueue.model.ids import NodeEpoch, NodeId
from goqueue.model.quorum import LOCAL
from goqueue.runtime import Environment, MutualTlsNetwork
from goqueue.wire.node_messages import NodeApi

HANDED_OVER_AT_ONCE: Final = 50  # partitions

NodeHandler = Callable[[NodeId, Any], Awaitable[object]]  # of a request of that node


class ClusterBroker(Decider, Protocol):
    """The broker whose node this is."""

    partitions: Partitions

    @property
    def metadata(self) -> Metadata: ...

    def group_coordinator(self, group_id: str) -> NodeId: ...


class ClusterNode:
    """Only the event loop's thread touches it."""

    def __init__(self, environment: Environment, config: Config, broker: ClusterBroker) -> None:
        environment = among_nodes(environment, config.cluster)
        self.environment = self._environment = environment
        network = environment.network
        self.tls = network if isinstance(network, MutualTlsNetwork) else None
        self._config = config
        self._broker = broker
        self._node: NodeFile | None = None
        self._secret = b""
        self._membership: Membership | None = None
        self._service: ControllerService | None = None
        self._election: Election | None = None
        self._presence: Presence | None = None  # of a node that others may replace
        self._registration: Registration | None = None  # once the addresses are known
        self.elects = bool(config.cluster.listen) and config.cluster.quorum != LOCAL
        self.node_id = NodeId(config.node_id)
        self.handlers: dict[NodeApi, NodeHandler] = {}  # of the cluster listener
        self.peers = Peers(
            environment,
            self.identity,
            self._cluster_addresses,
            self._is_live,
        )
        self.others: OtherNodes | None = None  # of a broker that is not alone
        if config.cluster.listen:
            self.others = OtherNodes(
                self.node_id, self.peers, lambda: broker.metadata, broker.group_coordinator
            )
            self.handlers[NodeApi.VERB] = self.others.answer
        clock = environment.clock
        self.sent_quota = CatchUpQuota(clock, partial(self._find_copy, "leader"))
        self.received_quota = CatchUpQuota(clock, partial(self._find_copy, "follower"))
        self.replicas = ReplicaManager(
            broker.partitions,
            clock,
            node=self.node_id,
            node_epoch=self._node_epoch,
            connect=lambda leader: LeaderPeer.of(self.peers, leader),
            quota=self.received_quota,
        )
        self.roles = Roles(self.node_id, broker.partitions, self.replicas)
        self.isr = IsrKeeper(environment.clock, self, self._list_led, self._ineligible)
        self._resignations = Resignations(environment.clock, self._alter, self._epoch_of)
        broker.partitions.on_unfit = self._resignations.note

    # --- life -------------------------------------------------------------------------------------

    async def open(self, node: NodeFile) -> Membership | None:
        """Before the metadata is there; gives how this node asks who decides, if others may."""
        disk, cluster = self._environment.disk, self._config.cluster
        self._secret = await disk.in_background(lambda: load_secret(disk, cluster.secret_file))
        self._node = node
        session_ns = cluster.session_ms * 1_000_000
        if cluster.seeds:
            self._membership = Membership(
                self._environment,
                node,
                self.identity,
                lambda: cluster.seeds,
                session_ns=session_ns,
            )
            await self._membership.wait_for_controller()
        elif self.elects:
            self._membership = Membership(
                self._environment,
                node,
                self.identity,
                self._controller_addresses,
                session_ns=session_ns,
            )
        if cluster.listen and not cluster.seeds:
            self._service = ControllerService(
                self._environment,
                self._broker,
                self.identity,
                is_elected=self.elects,
                session_ns=session_ns,
            )
            self.handlers |= self._service.handlers
        return self._membership

    def open_election(self) -> None:
        """Once the metadata is there, for nodes that elect their controller."""
        assert self._membership is not None
        assert self._service is not None
        self._election = Election(
            self._environment,
            self._broker.controller,
            self._membership,
            self._service,
            self.peers,
            self._own_registration,
        )
        self.handlers |= self._election.handlers

    async def run_election(self, registration: Registration) -> None:
        """Register with the controller, or become it; raises when this node must not go on."""
        assert self._election is not None, "another node decides"
        self._registration = registration
        await self._election.run()

    async def wait_until_registered(self) -> None:
        assert self._election is not None, "another node decides"
        await self._election.wait_until_registered()

    async def resign(self) -> None:
        """This node stops: if it is the controller, another one need not wait to be it."""
        if self._election is not None:
            await self._election.resign()

    def _own_registration(self) -> Registration:
        assert self._registration is not None, "the node is not announced"
        return self._registration

    def _controller_addresses(self) -> Sequence[str]:
        return controller_addresses(self._broker.metadata, self.node_id)

    async def register(self, addresses: Mapping[str, Address], rack: str, machine: str) -> None:
        """With the node that is followed; returns when this node's image shows it."""
        assert self._membership is not None, "a voter registers itself"
        texts = {name: str(address) for name, address in addresses.items()}
        accepted = await self._membership.join(texts, rack, machine)
        await self._broker.controller.wait_for(Index(accepted.end))

    def upkeep(self) -> Iterator[Coroutine[Any, Any, None]]:
        """What runs until it is cancelled."""
        if self._membership is not None:
            controller = self._broker.controller
            self._presence = Presence(
                self._environment.clock,
                controller.newest_end,
                lambda: controller.position,
                self._membership.session_ns,
            )
            yield self._presence.run()
        if self._service is not None and not self.elects:
            yield self._service.run()
        if self._config.cluster.listen:
            yield self.isr.run()
            yield self._resignations.run()
            room = self._broker.partitions.room
            yield self._resignations.run_full_disk(lambda: room.is_full, self._list_led)

    async def run_membership(self) -> None:
        """Show that this node is alive, once it has registered; raises when it must not go on."""
        assert self._membership is not None, "a voter hears itself"
        controller = self._broker.controller
        await self._membership.run(lambda: controller.position)

    async def hand_over(self) -> None:
        """Have other nodes lead, as far as they can: this one is about to stop.

        Whoever waits here hears at once who leads now.  Raises what keeps it from that.
        """
        if not self._config.cluster.listen:
            return
        while await self._hand_over_some():
            await self._environment.clock.sleep(0)

    async def leave(self) -> None:
        """This node stops now: others need not notice that, and no commit waits for it."""
        if not self._config.cluster.listen:
            return
        if self._service is not None:
            self._service.sessions.stop_judging()
        if self.elsewhere is not None:
            await self.elsewhere.leave()
        else:
            await self._broker.leave(self.node_id)

    async def _hand_over_some(self) -> int:
        elsewhere = self.elsewhere
        if elsewhere is not None:
            return await elsewhere.hand_over(HANDED_OVER_AT_ONCE)
        return await self._broker.hand_over(self.node_id, HANDED_OVER_AT_ONCE)

    async def close(self) -> None:
        await self.replicas.close()
        if self._membership is not None:
            self._membership.close()
        self.peers.close()

    # --- other nodes ------------------------------------------------------------------------------

    def identity(self) -> Identity:
        """Of this node, for others."""
        assert self._node is not None, "the broker is not open"
        return Identity(self.node_id, self._node.cluster_id, self._secret)

    def note_cluster(self, node: NodeFile) -> None:
        """The cluster has a name."""
        self._node = node

    @property
    def voter(self) -> NodeId:
        """The node that has the metadata, or formed the cluster."""
        if self.elects:
            first = self._broker.metadata.controller.formed_by
            return self.node_id if first == NO_NODE else first
        if self._membership is None or self._membership.voter is None:
            return self.node_id
        return self._membership.voter

    @property
    def elsewhere(self) -> Forwarding | None:
        """How to ask the node that decides; None when this one does, or should."""
        if self._membership is None or self._broker.controller.is_leading:
            return None
        return Forwarding(
            self._membership,
            self._broker.controller,
            self._problem,
            lambda request: carry_out(self._broker, self.node_id, request),
        )

    def _problem(self) -> str:
        return "" if self._election is None else self._election.problem

    @property
    def controller_id(self) -> NodeId | None:
        """The node that decides; None when none does, or it is not known."""
        if self.elects:
            holder = self._broker.metadata.controller.node_id
            return None if holder == NO_NODE else holder
        if self._broker.controller.is_leading:
            return self.node_id
        return None if self._membership is None else self.voter

    @property
    def is_heard(self) -> bool:
        """Whether the node that decides heard this one at its last heartbeat."""
        return self._membership is None or self._membership.is_heard

    @property
    def is_current(self) -> bool:
        """Whether what this node knows of who leads is not older than an absence of it."""
        return self._presence is None or self._presence.is_current

    def positions(self) -> list[tuple[NodeId, int, int]]:
        """Of the nodes that this one hears as the controller; see `NodeSessions.positions`."""
        return [] if self._service is None else self._service.sessions.positions()

    def connection_lost(self, node_id: NodeId) -> None:
        """Of a node that has shown that it is alive."""
        if self._service is not None:
            self._service.connection_lost(node_id)

    def _cluster_addresses(self) -> Mapping[NodeId, str]:
        return {
            node.node_id: str(node.addresses["cluster"])
            for node in self._broker.metadata.nodes.members
            if "cluster" in node.addresses
        }

    def _find_copy(self, side: Side, topic: str, index: int, follower: NodeId) -> Copy:
        return find_copy(self._broker.metadata, topic, index, follower, side)

    def _is_live(self, node_id: NodeId) -> bool:
        return self._broker.metadata.nodes.live(node_id)

    def _node_epoch(self) -> NodeEpoch:
        return self._epoch_of(self.node_id)

    def _epoch_of(self, node_id: NodeId) -> NodeEpoch:
        return self._broker.metadata.nodes.at(node_id).epoch

    # --- who is in sync ---------------------------------------------------------------------------

    def note_ack(self, log: Partition) -> None:
        """A follower that is not in sync has acknowledged, or one has lost data."""
        bundle = self._broker.partitions.used_bundle(log.topic, log.index)
        if bundle is not None:
            self.isr.look_soon(bundle)

    def _list_led(self) -> Sequence[Bundle]:
        return [
            bundle
            for bundle in self._broker.partitions.bundles()
            if isinstance(bundle.role, Leader) and len(bundle.role.replicas) > 1
        ]

    def _ineligible(self) -> Collection[NodeId]:
        nodes = self._broker.metadata.nodes
        return {node_id for node_id in nodes if not nodes.active(node_id)}

    async def alter_isr(self, partition: LedPartition, proposal: IsrProposal) -> Granted | None:
        """See `goqueue.broker.replicas.isr.Controller`."""
        assert isinstance(partition, Bundle)
        assert partition.topic_id is not None
        change = IsrChange(
            topic_id=partition.topic_id,
            partition=partition.index,
            leader_epoch=proposal.leader_epoch,
            partition_epoch=proposal.partition_epoch,
            isr=[self._with_epoch(member) for member in proposal.isr],
        )
        state = await self._alter(change)
        return Granted(state.partition_epoch, frozenset(state.isr))

    def _with_epoch(self, member: IsrMember) -> IsrMember:
        """Whoever has not fetched from this leader yet is in sync by the controller's word.

        If it loses its disk, the controller changes the partition, and the proposal is too late.
        """
        if member.node_epoch >= 0:
            return member
        return IsrMember(member.node, self._epoch_of(member.node))

    async def _alter(self, change: IsrChange) -> PartitionState:
        epoch, elsewhere = self._node_epoch(), self.elsewhere
        if elsewhere is not None:
            return await elsewhere.alter_partition(epoch, change)
        return await self._broker.alter_partition(self.node_id, epoch, change)


def among_nodes(environment: Environment, config: ClusterConfig) -> Environment:
    """With TLS between the nodes, if they have certificates."""
    if not config.cert_file:
        return environment
    network = MutualTlsNetwork(
        environment.network, config.ca_file, config.cert_file, config.key_file
    )
    return msgspec.structs.replace(environment, network=network)
