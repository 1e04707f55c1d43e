"""A coordinator without a disk: decisions are applied at once, and remembered for a replay."""

from collections.abc import Callable
from typing import Any

from goqueue.model.ids import Timestamp, TopicName
from goqueue.model.machine import Decision
from goqueue.txn import MustEnd, ProducerIdentity, TransactionMachine, TransactionRecord
from goqueue.txn.records import decode, encode

A0 = (TopicName("a"), 0)
A1 = (TopicName("a"), 1)


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

    def add(self, name: str, who: ProducerIdentity, *places: tuple[TopicName, int]) -> None:
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
        self.do(lambda machine: machine.completed(self.now, name))

    def replayed(self) -> TransactionMachine:
        machine = TransactionMachine()
        for data in self.log:
            machine.apply(decode(data))
        return machine


def state_of(machine: TransactionMachine) -> dict[str, Any]:
    """All that a replay must bring back."""
    return {
        "transactions": {each.transactional_id: each.kept() for each in machine.all()},
        "ongoing": [each.transactional_id for each in machine.ongoing],
        "prepared": {each.transactional_id for each in machine.prepared},
        "applications": machine.applications.kept(),
        "deadline": machine._deadlines.soonest(),
    }
