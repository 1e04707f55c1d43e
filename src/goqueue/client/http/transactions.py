# Generated from async_transactions.py by `make generate`: change that one, not this.
"""Transactions, for programs that wait.

producer = client.transactional("billing-1")
with producer.transaction() as transaction:
    transaction.publish("bills", ["…"])
    transaction.ack(*jobs)  # messages that a queue delivered
# committed: all of it, or nothing; an error in the block aborts it
"""

import contextlib
from collections.abc import Iterator, Mapping

from goqueue.api.transactions import PublishedInTransaction
from goqueue.client.errors import ClientError, Refused
from goqueue.client.http.calls import producers
from goqueue.client.http.calls.call import Sender
from goqueue.client.http.calls.producers import FENCED, Ids
from goqueue.client.http.messages import Publishables
from goqueue.client.http.queue_results import Receipt, receipts_of


class TransactionalProducer:
    """One producer under its transactional id; for one thread.  Starting another fences it.

    It is started with its first transaction, and again after an error whose effect is not known.
    Once it is fenced, every further transaction is refused.
    """

    def __init__(self, client: Sender, transactional_id: str, timeout_ms: int) -> None:
        self._client = client
        self._transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._ids: Ids | None = None
        self._fenced: Refused | None = None

    @contextlib.contextmanager
    def transaction(self) -> "Iterator[Transaction]":
        """Commits at the end of the block; an error in it aborts, and is raised."""
        transaction = Transaction(self._client, self._begin())
        try:
            yield transaction
            self._client.send(producers.commit(transaction.ids))
        except BaseException as error:
            self._fail(error, transaction.ids)
            raise

    def _begin(self) -> Ids:
        if self._fenced is not None:
            raise self._fenced
        ids, self._ids = self._ids, None  # until it is known to have begun
        if ids is None:
            who = self._client.send(producers.init(self._transactional_id, self._timeout_ms))
            ids = Ids(self._transactional_id, who.producer_id, who.epoch)
        try:
            begun = self._client.send(producers.begin(ids))
        except Refused as error:
            self._note_fenced(error)
            raise
        self._ids = ids
        return Ids(ids.transactional_id, ids.producer_id, ids.epoch, begun.transaction_id)

    def _fail(self, error: BaseException, ids: Ids) -> None:
        known, self._ids = self._ids, None
        self._note_fenced(error)
        if self._fenced is not None:
            return
        try:
            self._client.send(producers.abort(ids))
            self._ids = known
        except ClientError as failure:  # its time will run out
            self._note_fenced(failure)

    def _note_fenced(self, error: BaseException) -> None:
        """Another producer has the transactional id: starting again would fence that one."""
        if isinstance(error, Refused) and error.code == FENCED:
            self._fenced = error


class Transaction:
    """What takes part in the transaction that is open."""

    def __init__(self, client: Sender, ids: Ids) -> None:
        self._client = client
        self.ids = ids

    def publish(self, topic: str, messages: Publishables) -> list[PublishedInTransaction]:
        """Where each message is; readers see it when the transaction is committed, or never."""
        return self._client.send(producers.publish(self.ids, topic, messages))

    def ack(self, *messages: Receipt) -> None:
        """Acknowledge messages of a queue.  Accepts deliveries or receipt handles.

        They do not run out while the transaction is open.  Refused when one of them has done so.
        """
        self._client.send(producers.acks(self.ids, receipts_of(messages)))

    def commit_offsets(self, group: str, positions: Mapping[tuple[str, int], int]) -> None:
        """Move a consumer group: topic and partition to the next offset to be read."""
        self._client.send(producers.offsets(self.ids, group, positions))
