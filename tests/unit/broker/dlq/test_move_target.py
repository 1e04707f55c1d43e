"""Redrives whose target is led by another node: each letter arrives once."""

import pytest

from goqueue.broker.dlq.move_target import AppendMove
from goqueue.model.errors import GoQueueError, Uncertain
from goqueue.model.ids import NodeId
from tests.unit.broker.dlq.dead_apart import ALL, dead_apart, values, wait_for_letters


@pytest.mark.parametrize("lost", ["request", "answer"])
def test_a_batch_whose_answer_is_lost_is_looked_for_before_it_is_sent_again(lost: str):
    with dead_apart(2, 3, 1) as apart:
        others = apart["b"].others
        assert others is not None
        ask, lost_once = others.ask, list[AppendMove]()

        async def unlucky(node_id: NodeId, verb: object, *given: float) -> object:
            if isinstance(verb, AppendMove) and not lost_once:
                lost_once.append(verb)
                if lost == "answer":
                    await ask(node_id, verb, *given)
                raise Uncertain("no answer")
            return await ask(node_id, verb, *given)  # type: ignore[arg-type]

        others.ask = unlucky  # type: ignore[method-assign,assignment]
        with pytest.raises(GoQueueError):
            apart.world.run(apart["a"].queues.dead_letters.redrive("orders"))
        assert lost_once
        wait_for_letters(apart, 0)
        assert values(apart) == sorted(ALL * 2)
