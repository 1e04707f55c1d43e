"""Messages of HTTP against the schemas of their topic, each for itself."""

from collections.abc import Sequence

from goqueue.broker.broker import Broker
from goqueue.broker.messages.idempotency import fingerprint_of
from goqueue.broker.messages.outgoing import Outcome, OutgoingMessage, Published, PutAside
from goqueue.broker.schemas.dead_letters import DeadLetterPlace, Invalid
from goqueue.broker.storage.partition import Partition
from goqueue.model.errors import GoQueueError
from goqueue.model.record import Record


class OutgoingCheck:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def check(
        self,
        partition: Partition,
        places: list[int],
        messages: Sequence[OutgoingMessage],
        outcomes: list[Outcome | None],
        idempotency_key: str | None,
    ) -> list[int]:
        """The places of those that are what their schemas say; the others get their outcome."""
        valid: list[int] = []
        invalid: dict[int, Invalid] = {}
        settings, now = partition.log.settings, self._broker.environment.clock.now()
        for place in places:
            each = messages[place]
            time = now if each.timestamp is None else each.timestamp
            record = Record(0, time, each.key, each.value, each.headers)
            try:
                problem = await self._broker.schema_checks.find_problem(
                    partition.topic, settings, record
                )
            except GoQueueError as error:  # the registry is not reached
                outcomes[place] = error
                continue
            if problem is None:
                valid.append(place)
            elif settings.dead_letters_invalid:
                invalid[place] = Invalid(record, problem)
            else:
                outcomes[place] = problem
        if invalid:
            await self._put_aside(partition, invalid, messages, outcomes, idempotency_key)
        return valid

    async def _put_aside(
        self,
        partition: Partition,
        invalid: dict[int, Invalid],
        messages: Sequence[OutgoingMessage],
        outcomes: list[Outcome | None],
        idempotency_key: str | None,
    ) -> None:
        mark = ""
        if idempotency_key is not None:
            same = fingerprint_of([messages[place] for place in invalid])
            mark = f"{partition.topic_id}/{partition.index}/{idempotency_key}/{same}"
        try:
            found = await self._broker.schema_dead_letters.write(partition, invalid, mark)
        except GoQueueError as error:
            outcomes[:] = [error if n in invalid else old for n, old in enumerate(outcomes)]
            return
        for number, at in found.items():
            outcomes[number] = _outcome(at, invalid[number])


def _outcome(at: DeadLetterPlace, invalid: Invalid) -> Published:
    problem = invalid.problem
    reason = PutAside(at.topic, problem.rule, problem.path, problem.schema_id)
    return Published(at.partition, at.offset, invalid.record.timestamp, False, reason)
