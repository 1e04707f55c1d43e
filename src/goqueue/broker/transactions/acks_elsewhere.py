"""Acks of a transaction that this node coordinates, of messages whose ledgers other nodes lead.

    check     at every leader: are the receipts good?  one is not: none is taken
    confirm   the transaction is still open, and has all these ledgers, durably
    reserve   at every leader: unless a transaction of the producer has ended there since `check`
    cancel    at the others, when one refuses all the same: none is taken

So a request that is late reserves nothing: the end of its transaction came to the ledger between
its `check` and it, or will come.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import msgspec

from goqueue.broker.cluster.other_nodes import OtherNodes, Verb
from goqueue.broker.queues.ledgers import wait_durable
from goqueue.broker.transactions.acks import Refused, TransactionAcks, owner_of
from goqueue.broker.transactions.ledger_tokens import LedgerToken
from goqueue.model.errors import GoQueueError, NotLeader, Uncertain
from goqueue.model.ids import NodeId, TopicPartition
from goqueue.queue import Where, read_owner
from goqueue.queue.ranges import Ranges
from goqueue.queue.receipts import read_receipts
from goqueue.txn import Transaction
from goqueue.wire.node_messages import Refusal, error_of

CHECKS_MAX: Final = 3

ReplyT = TypeVar("ReplyT")
RefusedThere = dict[int, Refusal]
Added = list[tuple[Where, Ranges]]
Places = list[int]  # of receipts in the request


class CheckedThere(msgspec.Struct, frozen=True):
    refused: RefusedThere
    tokens: list[LedgerToken]


class ReservedThere(msgspec.Struct, frozen=True):
    refused: RefusedThere
    added: Added
    is_stale: bool = False  # check once more


class CheckAcks(Verb[CheckedThere], frozen=True):
    name = "check_acks"
    reply_type = CheckedThere

    owner: str
    receipts: list[str]


class ReserveAcks(Verb[ReservedThere], frozen=True):
    name = "reserve_acks"
    reply_type = ReservedThere

    owner: str
    receipts: list[str]
    tokens: list[LedgerToken]


class CancelAcks(Verb[bool], frozen=True):
    name = "cancel_acks"
    reply_type = bool

    owner: str
    added: Added


class CountAcks(Verb[list[int]], frozen=True):
    """How many messages the owners have reserved here."""

    name = "count_acks"
    reply_type = list[int]

    owners: list[str]


class AcksHere:
    """What this node does for transactions, whoever coordinates them."""

    def __init__(self, acks: TransactionAcks) -> None:
        self._acks = acks

    def serve(self, others: OtherNodes) -> None:
        others.serve(CheckAcks, self.check)
        others.serve(ReserveAcks, self.reserve)
        others.serve(CancelAcks, self.cancel)
        others.serve(CountAcks, self.count)

    async def check(self, _: NodeId, verb: CheckAcks) -> CheckedThere:
        claims, _malformed = read_receipts(verb.receipts)
        refused, tokens = self._acks.check(read_owner(verb.owner), claims, len(verb.receipts))
        return CheckedThere(_tell(refused), tokens)

    async def reserve(self, _: NodeId, verb: ReserveAcks) -> ReservedThere:
        owner = read_owner(verb.owner)
        claims, _malformed = read_receipts(verb.receipts)
        if not self._acks.holds(owner, verb.tokens):
            return ReservedThere({}, [], is_stale=True)
        added = self._acks.added_ranges(owner, claims)
        refused, waiting = self._acks.reserve(owner, claims, len(verb.receipts))
        await wait_durable(waiting)
        return ReservedThere(_tell(refused), [] if refused else added)

    async def cancel(self, _: NodeId, verb: CancelAcks) -> bool:
        await self._acks.cancel(read_owner(verb.owner), verb.added)
        return True

    async def count(self, _: NodeId, verb: CountAcks) -> list[int]:
        return [self._acks.count_of(owner) for owner in verb.owners]


class AcksElsewhere:
    """Asks the leaders of the ledgers; this node is one of them where it leads."""

    def __init__(
        self, others: OtherNodes, leader_elsewhere: Callable[[TopicPartition], NodeId | None]
    ) -> None:
        self._others = others
        self._leader_elsewhere = leader_elsewhere

    def divide(self, receipts: Sequence[str]) -> dict[NodeId, Places] | None:
        """Places in the request by leader; None: this node leads all of it."""
        claims, _ = read_receipts(receipts)
        found: dict[NodeId, Places] = {}
        for (where, _), some in claims.items():
            leader = self._leader(TopicPartition(where.topic, where.partition))
            places = found.setdefault(leader, [])
            for claim in some:
                places.extend(range(claim.place, claim.place + claim.size))
        return None if found.keys() <= {self._others.node_id} else found

    # --- reserving --------------------------------------------------------------------------------

    async def reserve(
        self,
        transaction: Transaction,
        receipts: Sequence[str],
        divided: dict[NodeId, Places],
        confirm: Callable[[], Awaitable[None]],
    ) -> Refused:
        """All of them, or none and why; durable on return.

        `confirm` raises unless the transaction is open and has the ledgers, durably.
        """
        owner = str(owner_of(transaction))
        some = {node: [receipts[place] for place in places] for node, places in divided.items()}
        for _ in range(CHECKS_MAX):
            checks = {node: CheckAcks(owner, mine) for node, mine in some.items()}
            checked = _answers(await self._others.ask_each(checks))
            refused = _by_place(divided, {node: each.refused for node, each in checked.items()})
            if refused:
                return refused
            await confirm()
            wanted = {
                node: ReserveAcks(owner, mine, checked[node].tokens) for node, mine in some.items()
            }
            found = await self._others.ask_each(wanted)
            reserved = {n: each for n, each in found.items() if isinstance(each, ReservedThere)}
            refused = _by_place(divided, {node: each.refused for node, each in reserved.items()})
            if len(reserved) == len(found) and not refused and not _is_stale(reserved):
                return {}
            await self._cancel(owner, {node: each.added for node, each in reserved.items()})
            _answers(found)  # or raises
            if refused:
                return refused
        raise NotLeader("leaders of the messages' partitions change: try again in a moment")

    async def _cancel(self, owner: str, added: dict[NodeId, Added]) -> None:
        verbs = {node: CancelAcks(owner, each) for node, each in added.items() if each}
        for each in (await self._others.ask_each(verbs)).values():
            if isinstance(each, GoQueueError):
                text = "some of the messages may be in the transaction, and others not: abort it"
                raise Uncertain(f"{text} ({each})") from each

    # --- counting ---------------------------------------------------------------------------------

    async def count(self, transactions: Sequence[Transaction]) -> list[int | None]:
        """How many messages each of the transactions acks; None while a leader is not reached."""
        counts: list[int | None] = [0] * len(transactions)
        asked: dict[NodeId, Places] = {}
        for place, transaction in enumerate(transactions):
            try:
                nodes = {self._leader(each) for each in transaction.ledgers}
            except NotLeader:
                counts[place] = None
                continue
            for node in nodes:
                asked.setdefault(node, []).append(place)
        owners = [str(owner_of(each)) for each in transactions]
        verbs = {node: CountAcks([owners[i] for i in places]) for node, places in asked.items()}
        for node, found in (await self._others.ask_each(verbs)).items():
            for step, place in enumerate(asked[node]):
                before = counts[place]
                if before is None or isinstance(found, GoQueueError):
                    counts[place] = None
                else:
                    counts[place] = before + found[step]
        return counts

    def _leader(self, at: TopicPartition) -> NodeId:
        leader = self._leader_elsewhere(at)
        return self._others.node_id if leader is None else leader


def _answers(found: dict[NodeId, ReplyT | GoQueueError]) -> dict[NodeId, ReplyT]:
    """Raises the first refusal."""
    for each in found.values():
        if isinstance(each, GoQueueError):
            raise each
    return {node: each for node, each in found.items() if not isinstance(each, GoQueueError)}


def _is_stale(reserved: dict[NodeId, ReservedThere]) -> bool:
    return any(each.is_stale for each in reserved.values())


def _by_place(divided: dict[NodeId, Places], refused: dict[NodeId, RefusedThere]) -> Refused:
    return {
        divided[node][place]: error_of(each)
        for node, some in refused.items()
        for place, each in some.items()
    }


def _tell(refused: Refused) -> RefusedThere:
    return {place: Refusal(error.code, str(error)) for place, error in refused.items()}
