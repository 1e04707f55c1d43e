"""Transactions, for programs on an event loop.

producer = client.transactional("billing-1")
async with producer.transaction() as transaction:
    await transaction.publish("bills", ["…"])
    await transaction.ack(*jobs)  # messages that a queue delivered
# committed: all of it, or nothing; an error in the block aborts it
"""

import contextlib
from collections.abc import AsyncIterator, Mapping

from goqueue.api.transactions import PublishedInTransaction
from goqueue.client.errors import ClientError, Refused
from goqueue.client.http.calls import producers
from goqueue.client.http.calls.call import AsyncSender
from goqueue.client.http.calls.producers import FENCED, Ids
from goqueue.client.http.messages import Publishables
from goqueue.client.http.queue_results import Receipt, receipts_of


class AsyncTransactionalProducer:
    """One producer under its transactional id; for one task.  Starting another fences it.

    It is started with its first transaction, and again after an error whose effect is not known.
    Once it is fenced, every further transaction is refused.
    """

    def __init__(self, client: AsyncSender, transactional_id: str, timeout_ms: int) -> None:
        self._client = client
        self._transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._ids: Ids | None = None
        self._fenced: Refused | None = None

    @contextlib.asynccontextmanager
    async def transaction(self) -> "AsyncIterator[AsyncTransaction]":
        """Commits at the end of the block; an error in it aborts, and is raised."""
        transaction = AsyncTransaction(self._client, await self._begin())
        try:
            yield transaction
            await self._client.send(producers.commit(transaction.ids))
        except BaseException as error:
            await self._fail(error, transaction.ids)
            raise

    async def _begin(self) -> Ids:
        if self._fenced is not None:
            raise self._fenced
        ids, self._ids = self._ids, None  # until it is known to have begun
        if ids is None:
            who = await self._client.send(producers.init(self._transactional_id, self._timeout_ms))
            ids = Ids(self._transactional_id, who.producer_id, who.epoch)
        try:
            begun = await self._client.send(producers.begin(ids))
        except Refused as error:
            self._note_fenced(error)
            raise
        self._ids = ids
        return Ids(ids.transactional_id, ids.producer_id, ids.epoch, begun.transaction_id)

    async def _fail(self, error: BaseException, ids: Ids) -> None:
        known, self._ids = self._ids, None
        self._note_fenced(error)
        if self._fenced is not None:
            return
        try:
            await self._client.send(producers.abort(ids))
            self._ids = known
        except ClientError as failure:  # its time will run out
            self._note_fenced(failure)

    def _note_fenced(self, error: BaseException) -> None:
        """Another producer has the transactional id: starting again would fence that one."""
        if isinstance(error, Refused) and error.code == FENCED:
            self._fenced = error


class AsyncTransaction:
    """What takes part in the transaction that is open."""

    def __init__(self, client: AsyncSender, ids: Ids) -> None:
        self._client = client
        self.ids = ids

    async def publish(self, topic: str, messages: Publishables) -> list[PublishedInTransaction]:
        """Where each message is; readers see it when the transaction is committed, or never."""
        return await self._client.send(producers.publish(self.ids, topic, messages))

    async def ack(self, *messages: Receipt) -> None:
        """Acknowledge messages of a queue.  Accepts deliveries or receipt handles.

        They do not run out while the transaction is open.  Refused when one of them has done so.
        """
        await self._client.send(producers.acks(self.ids, receipts_of(messages)))

    async def commit_offsets(self, group: str, positions: Mapping[tuple[str, int], int]) -> None:
        """Move a consumer group: topic and partition to the next offset to be read."""
        await self._client.send(producers.offsets(self.ids, group, positions))
