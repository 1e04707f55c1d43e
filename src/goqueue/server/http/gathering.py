"""Answers about all groups, or all transactions: of all nodes that coordinate some.

    the node that is asked ── the same question, of these shards ──> every node that leads some
                           <── its part, or why it has none

An answer is whole, or it is refused: a shard that nobody leads, or a node that does not answer, is
503 with Retry-After.  A broker that is alone asks nobody.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from goqueue.broker import Broker
from goqueue.broker.cluster.other_nodes import Verb
from goqueue.model.errors import GoQueueError, NotCoordinator
from goqueue.model.ids import NodeId

ReplyT = TypeVar("ReplyT")
VerbT = TypeVar("VerbT", bound=Verb[Any])
Answer = Callable[[Broker, VerbT], Awaitable[Any]]

_ANSWERS: Final[dict[type[Verb[Any]], Answer[Any]]] = {}


def answers(verb: type[VerbT]) -> Callable[[Answer[VerbT]], Answer[VerbT]]:
    """How a node answers the verb, of what it coordinates itself."""

    def note(answer: Answer[VerbT]) -> Answer[VerbT]:
        _ANSWERS[verb] = answer
        return answer

    return note


def serve_gathered(broker: Broker) -> None:
    """For the other nodes."""
    if broker.others is None:
        return
    for verb, answer in _ANSWERS.items():
        broker.others.serve(verb, _carry_out(broker, answer))


def _carry_out(broker: Broker, answer: Answer[Any]) -> Callable[[NodeId, Any], Awaitable[Any]]:
    async def carry_out(_: NodeId, verb: Any) -> Any:
        return await answer(broker, verb)

    return carry_out


async def gather(
    broker: Broker,
    coordinators: Mapping[NodeId, Sequence[int]],
    make: Callable[[list[int]], Verb[ReplyT]],
) -> list[ReplyT]:
    """What each coordinator answers about its shards; raises what the first of them refused."""
    verbs = {node: make(list(shards)) for node, shards in coordinators.items()}
    if broker.others is None:
        return [await _ANSWERS[type(verb)](broker, verb) for verb in verbs.values()]
    found = await broker.others.ask_each(verbs)
    for answer in found.values():
        if isinstance(answer, GoQueueError):
            raise answer
    return [answer for answer in found.values() if not isinstance(answer, GoQueueError)]


def check_shards(led: Mapping[int, object], asked: Sequence[int]) -> None:
    """Raise `NotCoordinator` unless this node coordinates all of them."""
    missing = [shard for shard in asked if shard not in led]
    if missing:
        raise NotCoordinator(f"this node does not coordinate shard {missing[0]} at the moment")
