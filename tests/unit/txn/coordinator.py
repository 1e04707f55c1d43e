"""A coordinator without a disk: decisions are applied at once, and remembered for a replay."""

from collections.abc import Callable
from typing import Any

from goqueue.model.ids import Timestamp, TopicName, TopicPartition
from goqueue.model.machine import Decision
from goqueue.txn import (
    Attempt,
    GroupEnded,
    Members,
    MustEnd,
    ProducerIdentity,
    RunBegun,
    TransactionMachine,
    TransactionRecord,
)
from goqueue.txn.records import decode, encode

A0 = TopicPartition(TopicName("a"), 0)
A1 = TopicPartition(TopicName("a"), 1)


class Coordinator:
    def __init__(self) -> None:
        self.machine = TransactionMachine()
        self.log: list[bytes] = []
        self.now = Timestamp(1_000_000)
        self.ids = iter(range(100, 1_000_000))

    def do(self, decide: Callable[[TransactionMachine], Decision[TransactionRecord, Any]]) -> Any:
        decision = decide(self.machine)
        for record in decision.records:
            self.log.append(encode(record))
            self.machine.apply(record)
        return decision.reply

    def init(self, name: str, expected: ProducerIdentity | None = None) -> ProducerIdentity:
        while True:
            reply = self.do(
                lambda machine: machine.init(
                    self.now,
                    name,
                    timeout_ms=60_000,
                    new_producer_id=next(self.ids),
                    expected=expected,
                )
            )
            if isinstance(reply, ProducerIdentity):
                return reply
            assert isinstance(reply, MustEnd)
            self.complete(name)

    def add(self, name: str, who: ProducerIdentity, *places: TopicPartition) -> None:
        self.do(lambda machine: machine.add_partitions(self.now, name, who, places))

    def end(
        self, name: str, who: ProducerIdentity, *, commits: bool = True, bumps: bool = True
    ) -> ProducerIdentity:
        spare = next(self.ids)
        after: ProducerIdentity = self.do(
            lambda machine: machine.end(
                self.now,
                name,
                who,
                commits=commits,
                bumps_epoch=bumps,
                spare_producer_id=spare,
            )
        )
        return after

    def complete(self, name: str) -> None:
        self.do(lambda machine: machine.complete(self.now, name))

    # --- many at once -----------------------------------------------------------------------------

    def start_run(self, application: str, run: int) -> RunBegun:
        begun: RunBegun = self.do(
            lambda machine: machine.applications.start_run(self.now, application, run)
        )
        return begun

    def start_named_run(self, application: str, name: str) -> RunBegun:
        begun: RunBegun = self.do(
            lambda machine: machine.applications.start_named_run(self.now, application, name)
        )
        return begun

    def start_attempt(
        self, application: str, run: int, version: int, task: int = 0, number: int = 0
    ) -> tuple[str, ProducerIdentity] | None:
        name = f"{application}:{run}:{version}:{task}:{number}"
        while True:
            reply = self.do(
                lambda machine: machine.applications.start_attempt(
                    self.now,
                    Attempt(application, run, version),
                    name,
                    timeout_ms=60_000,
                    new_producer_id=next(self.ids),
                )
            )
            if not isinstance(reply, MustEnd):
                return None if reply is None else (name, reply)
            self.complete(name)

    def write_attempt(
        self, application: str, run: int, version: int, task: int = 0, number: int = 0
    ) -> tuple[str, ProducerIdentity]:
        """An attempt that has written something."""
        started = self.start_attempt(application, run, version, task, number)
        assert started is not None
        self.add(*started, A0)
        return started

    def decide(
        self, application: str, run: int, version: int, members: Members, contents: str = ""
    ) -> GroupEnded:
        ended: GroupEnded = self.do(
            lambda machine: machine.applications.decide(
                self.now, application, version, run, members, contents
            )
        )
        return ended

    def abort_group(self, application: str, run: int, version: int) -> GroupEnded:
        ended: GroupEnded = self.do(
            lambda machine: machine.applications.abort(self.now, application, version, run)
        )
        return ended

    def replay(self) -> TransactionMachine:
        machine = TransactionMachine()
        for data in self.log:
            machine.apply(decode(data))
        return machine

    def restore(self) -> TransactionMachine:
        """From a snapshot."""
        machine = TransactionMachine()
        for record in self.machine.snapshot():
            machine.apply(decode(encode(record)))
        return machine


def state_of(machine: TransactionMachine) -> dict[str, Any]:
    """All that a replay must bring back."""
    return {
        "transactions": {each.transactional_id: each.to_record() for each in machine.all()},
        "ongoing": [each.transactional_id for each in machine.ongoing],
        "prepared": {each.transactional_id for each in machine.prepared},
        "applications": machine.applications.snapshot(),
        "attempts": {
            name: dict(known.attempts) for name, known in machine.applications.known.items()
        },
        "deadline": machine._deadlines.soonest(),
    }
