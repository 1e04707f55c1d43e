"""Publishing to partitions that other nodes lead: one request to each of them, at the same time.

A node that does not answer refuses its own messages only.  What was not done, because the node is
not reached or does not lead any more, goes to the next leader, for as long as there is time.  What
a deposed leader may have written goes there under an idempotency key only: else it may come twice.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol
from uuid import UUID

from goqueue.broker.cluster.other_nodes import OtherNodes, Verb, nothing_done
from goqueue.broker.cluster.other_nodes import Outcome as OutcomeThere
from goqueue.broker.messages.outgoing import Acks, Outcome, OutgoingMessage, Published
from goqueue.cluster import Topic
from goqueue.model.config import Config
from goqueue.model.errors import GoQueueError, LeadershipLost, NotLeader
from goqueue.model.ids import NodeId

MARGIN_SECONDS: Final = 5.0  # beside the time that the messages have to be durable
REQUEST_BYTES_MAX: Final = 8 * 1024 * 1024  # of messages; a frame holds twice as much

PublishOutcome = OutcomeThere[Published]
Places = dict[int, list[int]]  # partition to places in the request


class PublishHere(Verb[list[PublishOutcome]], frozen=True):
    name = "publish"
    reply_type = list[PublishOutcome]

    topic_id: UUID
    partitions: list[int]  # of each message
    messages: list[OutgoingMessage]
    acks: Acks
    idempotency_key: str | None


class Services(Protocol):
    @property
    def config(self) -> Config: ...

    @property
    def others(self) -> OtherNodes | None: ...


async def publish_elsewhere(
    services: Services,
    topic: Topic,
    assigned: Places,
    messages: Sequence[OutgoingMessage],
    outcomes: list[Outcome | None],
    acks: Acks,
    idempotency_key: str | None,
) -> None:
    """Fill in the outcomes of the messages that are assigned to partitions of other nodes."""
    others = services.others
    assert others is not None, "there are other nodes"
    seconds = services.config.http.publish_timeout_ms / 1000 + MARGIN_SECONDS
    deadline = others.wait_deadline(seconds)

    async def publish(leader: NodeId, some: Places) -> Places:
        """Gives what was not done, and would be by another leader."""
        assert others is not None
        places = [place for each in some.values() for place in each]
        request = PublishHere(
            topic.topic_id,
            [index for index, each in some.items() for _ in each],
            [messages[place] for place in places],
            acks,
            idempotency_key,
        )
        try:
            found = [each.read() for each in await others.ask(leader, request, deadline.left)]
        except GoQueueError as error:
            found = [error] * len(places)
        for place, outcome in zip(places, found, strict=True):
            outcomes[place] = outcome
        return not_published(some, outcomes, is_keyed=idempotency_key is not None)

    waiting = assigned
    while waiting:
        by_leader, refused = _by_leader(others, topic, waiting, outcomes)
        for some in await asyncio.gather(*(publish(*each) for each in by_leader.items())):
            refused |= some
        waiting = refused
        if not waiting or not await deadline.look_again():
            return


def not_published(
    assigned: Places, outcomes: Sequence[Outcome | None], *, is_keyed: bool
) -> Places:
    """What another leader may be asked to publish, without fear that it comes twice."""
    return {
        index: places
        for index, places in assigned.items()
        if all(
            nothing_done(outcomes[place])
            or (is_keyed and isinstance(outcomes[place], LeadershipLost))
            for place in places
        )
    }


def _by_leader(
    others: OtherNodes, topic: Topic, assigned: Places, outcomes: list[Outcome | None]
) -> tuple[dict[NodeId, Places], Places]:
    """Whom to ask for what; and what has no leader now, which is its outcome for the time being."""
    by_leader: dict[NodeId, Places] = {}
    leaderless: Places = {}
    for index, places in assigned.items():
        try:
            by_leader.setdefault(others.leader(topic, index), {})[index] = places
        except NotLeader as error:
            leaderless[index] = places
            for place in places:
                outcomes[place] = error
    return by_leader, leaderless
