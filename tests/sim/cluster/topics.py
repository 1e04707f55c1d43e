"""Topics that are created and deleted, and a setting that is changed: one register for each name.

Every answer is a look at the register, too: "created" says that it was not there.  So the history
of a name must have an order of its operations, each within its time, that explains all answers
(linearizability; the search is Wing and Gong's).  What was not answered may have been done at any
time since, or not at all.  Nodes that only follow may show an older state, and are not judged;
the last look is at the controller, when all is quiet.
"""

import asyncio
import math
from typing import Literal

import msgspec

from goqueue.model.errors import TopicExists, TopicNotFound
from tests.sim.cluster.clients import Clients, Refused
from tests.unit.broker.cluster.cluster_world import ClusterWorld

NAMES = ("alpha", "beta")
REGISTER = "register"
SETTING = "retention.ms"
STEPS = 8

Verb = Literal["create", "delete", "set", "read"]
ABSENT = ""
PRESENT = "1"


class Operation(msgspec.Struct, frozen=True):
    verb: Verb
    began: float
    ended: float  # infinite without an answer
    outcome: str = ""  # "ok", "exists", "missing", or what was read; empty: nobody knows
    value: str = ""  # that is set


class Topics(Clients):
    def __init__(self, nodes: ClusterWorld, steps: int = STEPS) -> None:
        super().__init__(nodes, "topics")
        self.steps = steps
        self.history: dict[str, list[Operation]] = {name: [] for name in (*NAMES, REGISTER)}

    async def set_up(self) -> None:
        await self.create(REGISTER, 1)

    async def run(self) -> None:
        await asyncio.gather(*(self._work(name) for name in NAMES), self._set_on())

    async def _work(self, name: str) -> None:
        for _ in range(self.steps):
            verb: Verb = self.draw.choice(("create", "delete"))
            await self._attempt(name, verb)
            await self.rest(1.0)

    async def _set_on(self) -> None:
        for number in range(self.steps):
            await self._attempt(REGISTER, "set", str(1_000_000_000 + number))
            await self.rest(1.0)

    async def _attempt(self, name: str, verb: Verb, value: str = "") -> None:
        began, outcome = self.world.loop.time(), ""
        try:
            host = self.somewhere()
            if verb == "create":
                await self.ask(host, lambda node: node.create_topic(name, partitions=1))
            elif verb == "delete":
                await self.ask(host, lambda node: node.delete_topic(name))
            else:
                await self.ask(host, lambda node: node.change_settings(name, {SETTING: value}))
            outcome = "ok"
        except TopicExists:
            outcome = "exists"
        except TopicNotFound:
            outcome = "missing"
        except Refused:
            pass
        if outcome in ("exists", "missing") and self.nodes.quorum is not None:
            outcome = ""  # a controller that was deposed and has not heard of it, or a repetition
        ended = self.world.loop.time() if outcome else math.inf
        self.history[name].append(Operation(verb, began, ended, outcome, value))

    # --- the end ----------------------------------------------------------------------------------

    async def judge(self) -> None:
        metadata = self.nodes.controller.metadata
        now = self.world.loop.time()
        for name in NAMES:
            found = ABSENT if metadata.find(name) is None else PRESENT
            self._judge(name, Operation("read", now, now, found), ABSENT)
        settings = metadata.topic(REGISTER).overrides
        self._judge(REGISTER, Operation("read", now, now, settings.get(SETTING, ABSENT)), ABSENT)

    def _judge(self, name: str, last: Operation, first: str) -> None:
        if not is_linearizable([*self.history[name], last], first):
            self.note(f"{name}: no order explains {self.history[name]} and {last}")


def is_linearizable(operations: list[Operation], state: str) -> bool:
    """Whether the answered ones, and any of the others, have an order that explains the answers."""
    tried: set[tuple[frozenset[int], str]] = set()

    def search(left: frozenset[int], state: str) -> bool:
        if not any(math.isfinite(operations[each].ended) for each in left):
            return True
        if (left, state) in tried:
            return False
        tried.add((left, state))
        first_end = min(operations[each].ended for each in left)
        for each in sorted(left):
            if operations[each].began <= first_end:
                after = _apply(operations[each], state)
                if after is not None and search(left - {each}, after):
                    return True
        return False

    return search(frozenset(range(len(operations))), state)


def _apply(operation: Operation, state: str) -> str | None:
    """The state after it; None when the answer would have been another one."""
    match operation.verb, operation.outcome:
        case "create", "ok":
            return PRESENT if state == ABSENT else None
        case "create", "exists":
            return state if state != ABSENT else None
        case "create", _:
            return PRESENT
        case "delete", "ok":
            return ABSENT if state != ABSENT else None
        case "delete", "missing":
            return state if state == ABSENT else None
        case "delete", _:
            return ABSENT
        case "set", _:
            return operation.value
        case _, seen:
            return state if state == seen else None
