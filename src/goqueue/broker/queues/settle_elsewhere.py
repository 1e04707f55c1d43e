"""Ending deliveries of partitions that other nodes lead: each leader ends its own.

Receipts name topic and partition, so the leader is known.  A leader that is not reached refuses its
receipts, and the others' hold.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from goqueue.broker.cluster.other_nodes import OtherNodes, Outcome, Verb, outcome_of
from goqueue.broker.queues.acknowledgement import Ending
from goqueue.broker.queues.settlement import Settlement
from goqueue.broker.services import BrokerServices
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import NodeId
from goqueue.queue import Settled, SettleOutcome, Where
from goqueue.queue.receipts import read_receipts
from goqueue.wire.node_messages import Refusal, error_of

Refused = dict[int, GoQueueError]


class SettleHere(Verb[list[Outcome[Settled]]], frozen=True):
    name = "settle"
    reply_type = list[Outcome[Settled]]

    receipts: list[str]
    ending: Ending


class SettleQuietlyHere(Verb[dict[int, Refusal]], frozen=True):
    """As `SettleHere`; gives only what did not go well, by place."""

    name = "settle_quietly"
    reply_type = dict[int, Refusal]

    receipts: list[str]
    ending: Ending


class SettleRangeHere(Verb[list[Settled]], frozen=True):
    name = "settle_range"
    reply_type = list[Settled]

    where: Where
    first: int
    last: int
    ending: Ending
    consumer: str | None


class SettlementHere:
    """What this node does for others that settle."""

    def __init__(self, settlement: Settlement) -> None:
        self._settlement = settlement

    def serve(self, others: OtherNodes) -> None:
        others.serve(SettleHere, self.settle)
        others.serve(SettleQuietlyHere, self.settle_quietly)
        others.serve(SettleRangeHere, self.settle_range)

    async def settle(self, _: NodeId, verb: SettleHere) -> list[Outcome[Settled]]:
        found = await self._settlement.settle_here(verb.receipts, verb.ending)
        return [outcome_of(each) for each in found]

    async def settle_quietly(self, _: NodeId, verb: SettleQuietlyHere) -> dict[int, Refusal]:
        found = await self._settlement.refusals_here(verb.receipts, verb.ending)
        return {place: Refusal(error.code, str(error)) for place, error in found.items()}

    async def settle_range(self, _: NodeId, verb: SettleRangeHere) -> list[Settled]:
        return await self._settlement.settle_range_here(
            verb.where, verb.first, verb.last, verb.ending, consumer=verb.consumer
        )


class SettlementElsewhere:
    """Asks the leaders of the partitions that receipts name."""

    def __init__(
        self, services: BrokerServices, others: OtherNodes, settlement: Settlement
    ) -> None:
        self._services = services
        self._others = others
        self._settlement = settlement

    def divide(self, receipts: Sequence[str]) -> dict[NodeId, list[int]] | None:
        """Places in the request by leader; None: this node leads all of it."""
        claims, malformed = read_receipts(receipts)
        me = self._others.node_id
        found: dict[NodeId, list[int]] = {}
        for (where, _), some in claims.items():
            places = found.setdefault(self._leader(where), [])
            for claim in some:
                places.extend(range(claim.place, claim.place + claim.size))
        if found.keys() <= {me}:
            return None
        if malformed:
            found.setdefault(me, []).extend(malformed)  # refused here
        return found

    def leader_elsewhere(self, where: Where) -> NodeId | None:
        """The other node that leads; None: this one, or nobody does."""
        leader = self._leader(where)
        return None if leader == self._others.node_id else leader

    def _leader(self, where: Where) -> NodeId:
        """This node, where there is none: it knows how to refuse."""
        try:
            topic = self._services.topic(where.topic)
            topic.check_partition(where.partition)
            return self._others.leader(topic, where.partition)
        except GoQueueError:
            return self._others.node_id

    async def settle(
        self, receipts: Sequence[str], ending: Ending, divided: dict[NodeId, list[int]]
    ) -> list[SettleOutcome]:
        outcomes: list[SettleOutcome | None] = [None] * len(receipts)

        async def settle_at(node_id: NodeId, some: list[str]) -> Sequence[SettleOutcome]:
            if node_id == self._others.node_id:
                return await self._settlement.settle_here(some, ending)
            there = await self._others.ask(node_id, SettleHere(some, ending))
            return [each.read() for each in there]

        async def settle_some(node_id: NodeId, places: list[int]) -> None:
            try:
                found = await settle_at(node_id, [receipts[place] for place in places])
            except GoQueueError as error:
                found = [error] * len(places)
            for place, outcome in zip(places, found, strict=True):
                outcomes[place] = outcome

        await _at_all(divided, settle_some)
        return [outcome for outcome in outcomes if outcome is not None]

    async def refusals(
        self, receipts: Sequence[str], ending: Ending, divided: dict[NodeId, list[int]]
    ) -> Refused:
        refused: Refused = {}

        async def settle_at(node_id: NodeId, some: list[str]) -> Refused:
            if node_id == self._others.node_id:
                return await self._settlement.refusals_here(some, ending)
            there = await self._others.ask(node_id, SettleQuietlyHere(some, ending))
            return {place: error_of(each) for place, each in there.items()}

        async def settle_some(node_id: NodeId, places: list[int]) -> None:
            try:
                found = await settle_at(node_id, [receipts[place] for place in places])
            except GoQueueError as error:
                found = dict.fromkeys(range(len(places)), error)
            refused.update({places[each]: error for each, error in found.items()})

        await _at_all(divided, settle_some)
        return refused

    async def settle_range(
        self,
        leader: NodeId,
        where: Where,
        first: int,
        last: int,
        ending: Ending,
        consumer: str | None,
    ) -> list[Settled]:
        return await self._others.ask(leader, SettleRangeHere(where, first, last, ending, consumer))


async def _at_all(
    divided: dict[NodeId, list[int]], settle: Callable[[NodeId, list[int]], Awaitable[None]]
) -> None:
    await asyncio.gather(*(settle(node_id, places) for node_id, places in divided.items()))
