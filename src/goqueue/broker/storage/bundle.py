"""A partition's bundle: all its logs, which have one leader, one epoch and one ISR.

    kind      what it holds                     its id on the wire, and in the file `replica`
    DATA      the messages                      the topic's
    LEDGER    what queue groups did with them   uuid5(topic's id, "ledger")
    DELAYS    messages that are not due yet     uuid5(topic's id, "delays")
    TIMERS    when they are due, and which      uuid5(topic's id, "timers")
              were delivered or cancelled

The ledger is there once a queue group began in the partition, delays and timers once a message was
delayed.  Each log has a high watermark of its own; a replica is in sync when it is so on all of
them (`propose`).

A role is taken by all logs in one step.  What it ends, it ends at once: no log takes a write under
the role before, and whoever waits hears of it.  To lead takes longer, since each log notes durably
where the epoch begins before any takes writes:

    change_role(Leader) ── no log leads ── lead: the epoch is noted in all ── all logs lead
"""

import asyncio
from collections.abc import Container, Iterator
from typing import Final
from uuid import uuid5

from goqueue.broker.storage.partition import Partition, not_leader
from goqueue.cluster.replication import IsrProposal, Leader, Offline, Role, propose_isr
from goqueue.model.errors import CorruptData, FencedLeaderEpoch
from goqueue.model.ids import Instant, NodeId, Offset, PartitionId, TopicId

DATA: Final = ""
LEDGER: Final = "ledger"  # also the name of its directory, in that of the partition
DELAYS: Final = "delays"
TIMERS: Final = "timers"
BESIDE: Final = (LEDGER, DELAYS, TIMERS)  # the data; each may begin at any time
KINDS: Final = (DATA, *BESIDE)


def log_id(topic_id: TopicId, kind: str) -> TopicId:
    """What other nodes call the log: a topic of its own, as far as they copy it."""
    return TopicId(uuid5(topic_id, kind)) if kind else topic_id


class Bundle:
    """Only the event loop's thread touches it."""

    def __init__(
        self, topic: str, topic_id: TopicId | None, index: PartitionId, role: Role | None
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id  # None for the broker's own
        self.index = index
        self.role = role  # the newest that it was told; None: this node has the only replica
        self.lost_below: dict[str, Offset] = {}  # by kind: where what was found missing ends
        self._logs: dict[str, Partition] = {}
        self._changing = asyncio.Lock()  # held while logs note where an epoch begins

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    # --- logs -------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Partition]:
        """Its logs, as far as they are open."""
        return iter(self._logs.values())

    def find(self, kind: str) -> Partition | None:
        """The log, if it is open."""
        return self._logs.get(kind)

    @property
    def beside(self) -> int:
        """Which logs there are beside the data: a bit for each of `BESIDE`."""
        return sum(1 << bit for bit, kind in enumerate(BESIDE) if kind in self._logs)

    def add(self, log: Partition) -> None:
        """The log was opened; it leads with the next `lead`, if the others do.

        Raises `FencedLeaderEpoch` when it has records of a newer epoch than the role.
        """
        if self.role is not None:
            if self.role.epoch < log.leader_epoch:
                raise FencedLeaderEpoch(
                    f"{log} has records of epoch {log.leader_epoch}, and its leader's epoch is"
                    f" {self.role.epoch}: this node's metadata is old, or its data is another's"
                )
            log.take_role(_before_leading(self.role))
        self._logs[log.kind] = log
        data = self._logs.get(DATA)
        if data is not None:
            data.delays = self._logs.get(DELAYS)
        for each in self._logs.values():
            each.wake_readers()  # followers that wait for more get to know of it

    # --- role -------------------------------------------------------------------------------------

    @property
    def leads(self) -> bool:
        """Whether the partition's writes are taken here, by all logs that are open."""
        return self.is_led_here and all(log.leads for log in self)

    @property
    def is_led_here(self) -> bool:
        """Whether this node is its leader, though it may not be ready to take writes yet."""
        return isinstance(self.role, Leader | None)

    def check_leader(self) -> None:
        """Raise `NotLeader` unless this node is its leader, if only in a moment."""
        if self.role is not None and not self.is_led_here:
            raise not_leader(str(self), self.role)

    def check_whole(self) -> None:
        """Raise `CorruptData` while a log lacks records that it had synced: others have them."""
        for kind, end in self.lost_below.items():
            log = self._logs.get(kind)
            if log is not None and log.log.end_offset < end:
                raise CorruptData(
                    f"{log} lost records below {end}, and ends at {log.log.end_offset}: another"
                    " replica has to lead"
                )

    def change_role(self, role: Role) -> None:
        """All logs have it from now on; those that are to lead in a new epoch do after `lead`."""
        before, self.role = self.role, role
        for log in self._logs.values():
            if log.leads and _is_same_office(before, role):
                log.take_role(role)  # another ISR
            elif before != role:
                log.take_role(_before_leading(role))

    async def lead(self) -> None:
        """Let all logs take writes once each has noted where the epoch begins.

        Returns at once if the role is another.  If it changes meanwhile, that one stands.  Raises
        `CorruptData` while records are missing that other replicas have.
        """
        async with self._changing:
            role = self.role
            waiting = [log for log in self._logs.values() if not log.leads]
            if not isinstance(role, Leader) or not waiting:
                return
            self.check_whole()
            await asyncio.gather(*(log.note_epoch(role.epoch) for log in waiting))
            if isinstance(self.role, Leader) and _is_same_office(role, self.role):
                for log in waiting:
                    log.take_role(self.role)

    def propose(
        self, now: Instant, *, ineligible: Container[NodeId] = frozenset()
    ) -> IsrProposal | None:
        """A better ISR for all logs together, as `Replicas.propose`; None too if it does not lead.

        The proposal's role is to be taken (`change_role`) before it is sent.
        """
        logs = [log for log in self._logs.values() if log.leads]
        return propose_isr([log.assess_replicas(now, ineligible) for log in logs])

    def note_left_out(self, slow: frozenset[NodeId], now: Instant) -> None:
        """A proposal was granted: those that left for their slowness stay out for a while."""
        for log in self._logs.values():
            log.note_left_out(slow, now)


def _is_same_office(before: Role | None, role: Role) -> bool:
    return isinstance(before, Leader) and isinstance(role, Leader) and before.epoch == role.epoch


def _before_leading(role: Role) -> Role:
    """What a log is until it may lead."""
    if not isinstance(role, Leader):
        return role
    return Offline(f"this node is about to lead it, in epoch {role.epoch}", role.epoch)
