"""A partition on a few nodes: the rules of `cluster.replication` on a network and disks that fail.

Everything happens one event at a time, drawn from a seed: messages are lost, delayed and overtake
each other, nodes die with and without what they had not synced, the controller fences whom it
likes, and each node hears of the controller's decisions when it hears of them.  After every event
`check` looks at what must never be otherwise.
"""

from random import Random
from typing import Any

import msgspec

from goqueue.cluster import replication
from goqueue.cluster.replication import (
    Diverged,
    FollowerFetch,
    Frozen,
    IsrProposal,
    Leader,
    Replicas,
    choose_leader,
    eligible_after,
)
from goqueue.log.epochs import EpochStart, LeaderEpochs
from goqueue.model.ids import (
    NO_EPOCH,
    NO_NODE_EPOCH,
    Epoch,
    Instant,
    NodeEpoch,
    NodeId,
    Offset,
    PartitionEpoch,
)

SECOND = 1_000_000_000
Entry = tuple[int, int]  # leader epoch and value


class Image(msgspec.Struct, frozen=True):
    """The partition as the controller has decided."""

    leader: NodeId | None
    leader_epoch: int
    partition_epoch: int
    isr: frozenset[NodeId]
    elr: frozenset[NodeId] = frozenset()


class Fetch(msgspec.Struct, frozen=True):
    sender: NodeId
    to: NodeId
    leader_epoch: int
    number: int  # of this sender: a connection delivers in order, and a later one ends it
    what: FollowerFetch
    last_epoch: Epoch


class FetchReply(msgspec.Struct, frozen=True):
    to: NodeId
    leader_epoch: int
    number: int
    base: int
    entries: list[Entry]
    high_watermark: int
    diverged: Diverged | None


class Alter(msgspec.Struct, frozen=True):
    sender: NodeId
    proposal: IsrProposal


class Node:
    def __init__(self, node: NodeId, image: Image) -> None:
        self.node = node
        self.node_epoch = NodeEpoch(1)
        self.is_alive = True
        self.log: list[Entry] = []
        self.synced = 0
        self.high_watermark = 0
        self.kept_watermark = 0  # of those on its disk
        self.image = image
        self.replicas: Replicas | None = None
        self.fetch_number = 0
        self.seen_numbers: dict[NodeId, int] = {}

    def epochs(self) -> LeaderEpochs:
        found: list[EpochStart] = []
        for offset, (epoch, _) in enumerate(self.log):
            if not found or epoch > found[-1].epoch:
                found.append(EpochStart(Epoch(epoch), Offset(offset)))
        return LeaderEpochs(found)

    @property
    def end(self) -> Offset:
        return Offset(len(self.log))


class Controller:
    """What it decides is at once what is so: consensus is somebody else's affair."""

    def __init__(self, nodes: list[NodeId], min_insync_replicas: int) -> None:
        self.nodes = tuple(nodes)
        self.min_insync_replicas = min_insync_replicas
        self.fenced: set[NodeId] = set()
        self.node_epochs = dict.fromkeys(nodes, NodeEpoch(1))
        self.image = Image(nodes[0], 0, 0, frozenset(nodes))

    def grant(self, sender: NodeId, proposal: IsrProposal) -> None:
        image = self.image
        wanted = (image.leader, image.leader_epoch, image.partition_epoch)
        if wanted != (sender, proposal.leader_epoch, proposal.partition_epoch):
            return
        for member in proposal.isr:
            is_same = member.node_epoch in (NO_NODE_EPOCH, self.node_epochs[member.node])
            if member.node in self.fenced or not is_same:
                return
        self._change(image.leader, frozenset(member.node for member in proposal.isr))

    def register(self, node: NodeId, node_epoch: NodeEpoch) -> None:
        """A new process: what it wrote and lost must not be mistaken for what it writes now."""
        self.node_epochs[node] = node_epoch
        self.fenced.discard(node)
        if self.image.leader in (node, None):
            self._elect(anew=True)

    def fence(self, node: NodeId) -> None:
        self.fenced.add(node)
        self._elect()

    def admit(self, node: NodeId) -> None:
        self.fenced.discard(node)
        if self.image.leader is None:
            self._elect()

    def _elect(self, *, anew: bool = False) -> None:
        image = self.image
        leader, isr = image.leader, image.isr - self.fenced
        if leader is None or leader in self.fenced or anew:
            election = choose_leader(
                self.nodes,
                isr=image.isr,
                elr=image.elr,
                is_available=lambda node: node not in self.fenced,
            )
            leader, isr = election.leader, election.isr
        self._change(leader, isr, anew=anew)

    def _change(self, leader: NodeId | None, isr: frozenset[NodeId], *, anew: bool = False) -> None:
        image = self.image
        elr = eligible_after(
            isr_before=image.isr,
            isr=isr,
            elr_before=image.elr,
            min_insync_replicas=self.min_insync_replicas,
            replication_factor=len(self.nodes),
        )
        self.image = Image(
            leader,
            image.leader_epoch + (anew or leader != image.leader),
            image.partition_epoch + 1,
            isr,
            elr,
        )


class Partition:
    """The partition, its nodes, and everything on its way between them."""

    def __init__(self, seed: int, nodes: int = 3) -> None:
        self.random = Random(seed)
        self.min_insync_replicas = self.random.choice([1, 2, 2])
        ids = [NodeId(number) for number in range(nodes)]
        self.controller = Controller(ids, self.min_insync_replicas)
        self.nodes = {node: Node(node, self.controller.image) for node in ids}
        self.messages: list[Fetch | FetchReply | Alter] = []
        self.now = Instant(0)
        self.values = 0
        self.committed: list[Entry] = []
        self.committers: dict[int, NodeId] = {}  # leader epoch to who committed in it
        self.history: list[str] = []
        for node in self.nodes.values():
            self._take_image(node, self.controller.image)

    # --- what may happen --------------------------------------------------------------------------

    def run(self, events: int) -> None:
        happenings: list[tuple[Any, float]] = [
            (self.produce, 6),
            (self.sync, 12),
            (self.ask, 9),
            (self.deliver, 18),
            (self.lose, 0.4),
            (self.propose, 4),
            (self.hear, 6),
            (self.wait, 0.3),
            (self.keep_watermark, 1),
            (self.die, 0.3),
            (self.restart, 3),
            (self.fence, 0.2),
            (self.admit, 3),
        ]
        choices = [each for each, _ in happenings]
        weights = [weight for _, weight in happenings]
        for happening in self.random.choices(choices, weights, k=events):
            happening(self.nodes[self.random.choice(self.controller.nodes)])
            self.check()

    def heal(self) -> None:
        """Everybody lives and hears everything: all must become the same in the end."""
        for _ in range(60):
            for node in self.nodes.values():
                self.restart(node)
                self.admit(node)
                self.hear(node)
                self.sync(node)
                self.ask(node)
                self.propose(node)
                self.check()
            while self.messages:
                self.deliver(node)
                self.check()
        ends = {node.end for node in self.nodes.values()}
        assert self.controller.image.isr == set(self.controller.nodes), "not all are in sync"
        assert ends == {len(self.committed)}, "not all of it is committed"

    def produce(self, _: Node) -> None:
        leaders = [node for node in self.nodes.values() if node.replicas is not None]
        if leaders:
            leader = self.random.choice(leaders)
            self.values += 1
            leader.log.append((leader.image.leader_epoch, self.values))
            self._note(f"{leader.node} writes {self.values}")

    def sync(self, node: Node) -> None:
        if node.is_alive:
            node.synced = len(node.log)
            self._advance(node)

    def ask(self, node: Node) -> None:
        image = node.image
        if not node.is_alive or image.leader in (None, node.node):
            return
        if self._is_asking(node) and self.random.random() < 0.8:
            return
        node.fetch_number += 1
        acked = replication.ack_offset(
            synced_offset=Offset(node.synced), end_offset=node.end, flush="commit"
        )
        fetch = FollowerFetch(
            node=node.node, node_epoch=node.node_epoch, synced_offset=acked, end_offset=node.end
        )
        last_epoch = Epoch(node.log[-1][0]) if node.log else NO_EPOCH
        assert image.leader is not None
        self.messages.append(
            Fetch(node.node, image.leader, image.leader_epoch, node.fetch_number, fetch, last_epoch)
        )

    def _is_asking(self, node: Node) -> bool:
        return any(
            (isinstance(each, Fetch) and each.sender == node.node)
            or (isinstance(each, FetchReply) and each.to == node.node)
            for each in self.messages
        )

    def deliver(self, _: Node) -> None:
        if not self.messages:
            return
        message = self.messages.pop(self._some_message())
        match message:
            case Fetch():
                self._serve(self.nodes[message.to], message)
            case FetchReply():
                self._take_reply(self.nodes[message.to], message)
            case Alter():
                self.controller.grant(message.sender, message.proposal)

    def lose(self, _: Node) -> None:
        if self.messages:
            self.messages.pop(self._some_message())

    def _some_message(self) -> int:
        """Mostly one of the oldest, sometimes any."""
        among = len(self.messages) if self.random.random() < 0.1 else min(3, len(self.messages))
        return self.random.randrange(among)

    def propose(self, node: Node) -> None:
        if not node.is_alive or node.replicas is None:
            return
        proposal = node.replicas.propose(
            high_watermark=Offset(node.high_watermark), leader_end=node.end, now=self.now
        )
        if proposal is not None:
            self._note(f"{node.node} proposes {[member.node for member in proposal.isr]}")
            node.replicas.take_role(proposal.role, self.now)
            self.messages.append(Alter(node.node, proposal))
            self._advance(node)

    def hear(self, node: Node) -> None:
        if node.is_alive and node.image is not self.controller.image:
            self._take_image(node, self.controller.image)

    def wait(self, _: Node) -> None:
        self.now = Instant(self.now + self.random.randrange(4 * SECOND))

    def keep_watermark(self, node: Node) -> None:
        if node.is_alive:
            node.kept_watermark = min(node.high_watermark, node.synced)

    def die(self, node: Node) -> None:
        if node.is_alive:
            node.is_alive = False
            if self.random.random() < 0.7:  # the power went: what was not synced is gone
                del node.log[node.synced :]
            self._note(f"{node.node} dies with {node.end}")
            node.high_watermark = node.kept_watermark
            node.replicas = None
            node.seen_numbers = {}

    def restart(self, node: Node) -> None:
        if not node.is_alive:
            node.is_alive = True
            node.synced = len(node.log)
            node.node_epoch = NodeEpoch(node.node_epoch + 1)
            self.controller.register(node.node, node.node_epoch)
            self._take_image(node, self.controller.image)

    def fence(self, node: Node) -> None:
        self.controller.fence(node.node)
        self._note(f"{node.node} is fenced: {self.controller.image}")

    def admit(self, node: Node) -> None:
        if node.is_alive and node.node in self.controller.fenced:
            self.controller.admit(node.node)

    # --- the nodes --------------------------------------------------------------------------------

    def _take_image(self, node: Node, image: Image) -> None:
        is_new = image.leader_epoch != node.image.leader_epoch or node.replicas is None
        node.image = image
        if image.leader != node.node:
            node.replicas = None
            if is_new:
                self.begin_following(node)
            return
        role = Leader(
            node=node.node,
            epoch=Epoch(image.leader_epoch),
            partition_epoch=PartitionEpoch(image.partition_epoch),
            replicas=self.controller.nodes,
            isr=image.isr,
        )
        if is_new or node.replicas is None:
            self._note(f"{node.node} leads epoch {image.leader_epoch} from {node.end}")
            node.replicas = Replicas(
                role,
                min_insync_replicas=self.min_insync_replicas,
                node_epoch=node.node_epoch,
                epoch_start=node.end,
                now=self.now,
            )
            node.seen_numbers = {}
        else:
            node.replicas.take_role(role, self.now)
        self._advance(node)

    def begin_following(self, node: Node) -> None:
        """Nothing is given up before the leader says so."""

    def _serve(self, node: Node, fetch: Fetch) -> None:
        if (
            not node.is_alive
            or node.replicas is None
            or node.image.leader_epoch != fetch.leader_epoch
            or fetch.number < node.seen_numbers.get(fetch.sender, 0)
        ):
            return
        node.seen_numbers[fetch.sender] = fetch.number
        start = fetch.what.end_offset
        diverged = replication.find_divergence(
            node.epochs(), node.end, fetch_offset=start, last_fetched_epoch=fetch.last_epoch
        )
        if diverged is None:
            lost = node.replicas.ack(fetch.what, leader_end=node.end, now=self.now)
            assert lost is None, lost
            self._advance(node)
        self.messages.append(
            FetchReply(
                fetch.sender,
                fetch.leader_epoch,
                fetch.number,
                start,
                node.log[start : start + 3],
                node.high_watermark,
                diverged,
            )
        )

    def _take_reply(self, node: Node, reply: FetchReply) -> None:
        is_current = reply.leader_epoch == node.image.leader_epoch
        if not node.is_alive or not is_current or reply.number != node.fetch_number:
            return
        if node.image.leader == node.node or reply.base != node.end:
            return
        if reply.diverged is not None:
            offset = replication.truncation_offset(
                node.epochs(),
                node.end,
                reply.diverged,
                high_watermark=Offset(node.kept_watermark),
                is_unclean=False,
            )
            assert not isinstance(offset, Frozen), offset
            self.cut(node, offset)
            return
        node.log += reply.entries
        node.high_watermark = max(node.high_watermark, min(reply.high_watermark, node.end))

    def cut(self, node: Node, offset: int) -> None:
        self._note(f"{node.node} cuts {node.end} to {offset}")
        del node.log[offset:]
        node.synced = min(node.synced, offset)

    def _advance(self, node: Node) -> None:
        if node.replicas is None or not node.is_alive:
            return
        before = node.high_watermark
        after = node.replicas.high_watermark(
            Offset(node.synced), at_least=Offset(before), counts_synced=True
        )
        assert after >= before, "the high watermark fell"
        if after == before:
            return
        epoch = node.image.leader_epoch
        self._note(f"{node.node} commits {before} to {after} in epoch {epoch}")
        assert self.committers.setdefault(epoch, node.node) == node.node, (
            f"two leaders commit in epoch {epoch}"
        )
        node.high_watermark = after
        self.committed += node.log[max(before, len(self.committed)) : after]

    # --- what must hold ---------------------------------------------------------------------------

    def check(self) -> None:
        committed = self.committed
        for node in self.nodes.values():
            seen = node.high_watermark
            assert seen <= node.end, f"{node.node} shows what it does not have"
            assert node.log[:seen] == committed[:seen], f"{node.node} shows something else"
        image = self.controller.image
        for member in image.isr | image.elr:
            node = self.nodes[member]
            kept = node.log[: node.synced]
            assert kept[: len(committed)] == committed, (
                f"{member} may be elected, and has {len(kept)} of {len(committed)}"
            )

    def _note(self, text: str) -> None:
        self.history.append(text)
