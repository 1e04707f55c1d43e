"""Whether a transaction of a producer has ended in a queue ledger since somebody looked.

They are kept in memory: who looked before this node began to lead looks again.
"""

from typing import Final
from weakref import WeakKeyDictionary

import msgspec

from goqueue.broker.queues.ledgers import Ledger, Ledgers
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.queue import Owner

TOKENS_MAX: Final = 10_000  # producers of a ledger; beyond that they look again


class LedgerToken(msgspec.Struct, frozen=True, array_like=True):
    """Good until a transaction of the producer ends in the ledger, or another node leads it."""

    topic: TopicName
    partition: int
    number: int


class LedgerTokens:
    def __init__(self) -> None:
        self._last_number = 0
        self._numbers: WeakKeyDictionary[Ledger, dict[int, int]] = WeakKeyDictionary()

    def give(self, ledger: Ledger, owner: Owner) -> LedgerToken:
        numbers = self._numbers.setdefault(ledger, {})
        if len(numbers) >= TOKENS_MAX:
            numbers.clear()
        number = numbers.get(owner.producer_id)
        if number is None:
            self._last_number += 1
            number = numbers[owner.producer_id] = self._last_number
        return LedgerToken(*place_of(ledger), number)

    def holds(self, ledgers: Ledgers, owner: Owner, token: LedgerToken) -> bool:
        ledger = ledgers.find(token.topic, token.partition)
        numbers = {} if ledger is None else self._numbers.get(ledger, {})
        return numbers.get(owner.producer_id) == token.number

    def end(self, ledger: Ledger, producer_id: int) -> None:
        self._numbers.get(ledger, {}).pop(producer_id, None)


def place_of(ledger: Ledger) -> TopicPartition:
    return TopicPartition(TopicName(ledger.ahead.topic), ledger.ahead.partition)
