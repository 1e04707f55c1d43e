"""Publishing to partitions that other nodes lead: one request to each of them, at the same time.

A node that does not answer refuses its own messages only.  What was not done, because the node is
not reached or does not lead any more, goes to the next leader, for as long as there is time.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol
from uuid import UUID

from goqueue.broker.cluster.other_nodes import NOTHING_DONE, OtherNodes, Verb
from goqueue.broker.cluster.other_nodes import Outcome as OutcomeThere
from goqueue.broker.messages.outgoing import Acks, Outcome, OutgoingMessage, Published
from goqueue.cluster import Topic
from goqueue.model.config import Config
from goqueue.model.errors import GoQueueError
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
        return {
            index: each
            for index, each in some.items()
            if all(isinstance(outcomes[place], NOTHING_DONE) for place in each)
        }

    waiting = assigned
    while waiting:
        by_leader: dict[NodeId, Places] = {}
        for index, places in waiting.items():
            by_leader.setdefault(others.leader(topic, index), {})[index] = places
        refused = await asyncio.gather(*(publish(*each) for each in by_leader.items()))
        waiting = {index: places for some in refused for index, places in some.items()}
        if not waiting or not await deadline.look_again():
            return
