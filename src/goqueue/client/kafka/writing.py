"""Record batches to partitions, and the producers that write them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from kio.schema.errors import ErrorCode

from goqueue.client.errors import BadAnswer
from goqueue.client.kafka.caller import TRANSACTION, Caller, raise_worst
from goqueue.client.kafka.deadlines import Deadline
from goqueue.client.kafka.errors import KafkaRefused, check_code
from goqueue.client.kafka.results import Node, Produced, ProducerId
from goqueue.model.batch import header_in_part
from goqueue.model.ids import TopicPartition
from goqueue.wire.apis import ApiKey
from goqueue.wire.client_codec import OutgoingBatches, decode_body, encode_produce
from goqueue.wire.errors import MalformedRequest
from goqueue.wire.messages import duration
from goqueue.wire.primitives import Buffer

ACKS_ALL: Final = -1
SERVER_TIMEOUT_MS: Final = 30_000
TRANSACTION_TIMEOUT_MS: Final = 60_000
_DONE: Final = (ErrorCode.none, ErrorCode.duplicate_sequence_number)


class WritingVerbs(Caller):
    def init_producer(
        self, transactional_id: str | None = None, *, timeout_ms: int = TRANSACTION_TIMEOUT_MS
    ) -> ProducerId:
        """A new producer; of a transactional id, one that fences all before it."""

        def read(response: Any) -> ProducerId:
            check_code(response.error_code, f"producer {transactional_id!r}")
            return ProducerId(response.producer_id, response.producer_epoch)

        return self._call(
            ApiKey.INIT_PRODUCER_ID,
            read,
            coordinator=None if transactional_id is None else (TRANSACTION, transactional_id),
            transactional_id=transactional_id,
            transaction_timeout=duration(timeout_ms),
        )

    def produce(
        self,
        batches: Mapping[TopicPartition, Sequence[Buffer]],
        *,
        transactional_id: str | None = None,
        acks: Literal[1, -1] = ACKS_ALL,
    ) -> dict[TopicPartition, Produced]:
        """Append whole batches; they are durable on return, unless `acks` is 1.

        Batches that carry a producer's sequence are sent again after a lost answer, since the
        partition knows them.  Others are not: `NoAnswer` is then for the caller to think about.
        """
        done: dict[TopicPartition, Produced] = {}

        def attempt(deadline: Deadline) -> None:
            missing = [each for each in batches if each not in done]
            refusals = []
            for node, share in self._cluster.leaders(missing, deadline).items():
                outgoing = [OutgoingBatches(*each, batches[each]) for each in share]
                body = encode_produce(transactional_id, acks, SERVER_TIMEOUT_MS, outgoing)
                for each, result in self._produce(node, body, deadline):
                    code = result.error_code
                    if code in _DONE:
                        done[each] = Produced(result.base_offset)
                    else:
                        refusals.append(
                            KafkaRefused(f"write to {each}", code, result.error_message)
                        )
            raise_worst(refusals)

        self._retry(attempt, is_repeatable=all(map(_have_sequence, batches.values())))
        return done

    def _produce(
        self, node: Node, body: list[Buffer], deadline: Deadline
    ) -> Iterator[tuple[TopicPartition, Any]]:
        try:
            answer = decode_body(
                ApiKey.PRODUCE, self._cluster.ask(node, ApiKey.PRODUCE, body, deadline)
            )
        except MalformedRequest as error:
            raise BadAnswer(f"{node}: {error}") from error
        for topic in answer.responses:
            for result in topic.partition_responses:
                yield TopicPartition(topic.name, result.index), result


def _have_sequence(batches: Sequence[Buffer]) -> bool:
    """Whether a partition would know all of them again; one producer makes a request's batches."""
    return all(header_in_part(batch, 0).base_sequence >= 0 for batch in batches)
