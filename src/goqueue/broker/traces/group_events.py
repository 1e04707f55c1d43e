"""What the log of groups says of messages: a committed offset is an ack of all before it.

The coordinator of a group need not lead the partitions.  So their tracers are made here.
"""

from collections.abc import Callable, Sequence
from typing import Final

from goqueue.broker.traces.recorder import PartitionTracer, TraceRecorder
from goqueue.cluster import Topic
from goqueue.groups import (
    ClassicPhaseChanged,
    ClassicState,
    CommittedOffset,
    EpochBumped,
    GroupMachine,
    GroupRecord,
    OffsetsCommitted,
    PendingOffsetsEnded,
)
from goqueue.model.ids import TopicPartition
from goqueue.trace.events import Step
from goqueue.trace.journeys import FIRST_COMMIT

TRACERS_MAX: Final = 10_000


class GroupEvents:
    def __init__(
        self, recorder: TraceRecorder, find_topic: Callable[[str], Topic | None], own_mark: str
    ) -> None:
        """`own_mark` is the metadata of commits that queues make of their acks."""
        self._recorder = recorder
        self._find_topic = find_topic
        self._own_mark = own_mark
        self._tracers: dict[tuple[str, int], tuple[Topic, PartitionTracer | None]] = {}

    def observe(self, machine: GroupMachine, records: Sequence[GroupRecord]) -> None:
        if not self._recorder.is_enabled:
            return
        for record in records:
            match record:
                case OffsetsCommitted(group_id=group_id, offsets=offsets):
                    self._note_commits(machine, group_id, offsets, "")
                case PendingOffsetsEnded(group_id=group_id, committed=committed):
                    self._note_commits(machine, group_id, committed, "in a transaction")
                case EpochBumped(group_id=group_id, epoch=epoch):
                    self._recorder.note_rebalance(group_id, epoch, f"epoch {epoch}")
                case ClassicPhaseChanged(state=ClassicState.COMPLETING, generation=generation):
                    text = f"generation {generation}"
                    self._recorder.note_rebalance(record.group_id, generation, text)
                case _:
                    pass

    def _note_commits(
        self,
        machine: GroupMachine,
        group_id: str,
        offsets: Sequence[CommittedOffset],
        detail: str,
    ) -> None:
        before = machine.committed_offsets(group_id)  # type: ignore[arg-type] # it is one
        for each in offsets:
            if each.metadata == self._own_mark:
                continue  # the ledgers tell
            tracer = self._tracer(each.topic, each.partition)
            known = before.get(TopicPartition(each.topic, each.partition))
            first = 0 if known is None else known.offset
            if tracer is None or each.offset <= first:
                continue
            event = tracer.event(Step.ACKED, first, each.offset - 1)
            event.group = group_id
            event.detail = detail if known is not None else FIRST_COMMIT
            tracer.record(event)

    def _tracer(self, topic: str, index: int) -> PartitionTracer | None:
        found = self._find_topic(topic)
        if found is None:
            return None
        known = self._tracers.get((topic, index))
        if known is not None and known[0] is found:
            return known[1]
        if len(self._tracers) >= TRACERS_MAX:
            self._tracers.clear()
        tracer = self._recorder.tracer(found.name, found.topic_id, index, found.settings)
        self._tracers[topic, index] = found, tracer
        return tracer
