"""What became of a message: the steps it took, in order, and how that ended.

    delayed    it waits in the delay log
    pending    it is in the topic, and not every group that took it has finished it
    retrying   a delivery failed, and another one follows
    expired    its time to live was over before it was delivered
    error      it was refused, its transaction was aborted, or it is a dead letter
    completed  every group that took it has finished it; or it was read, and no group wanted it

With several groups the worst of them counts.  A message goes on at another offset when it becomes a
dead letter, is redriven, or was delayed: its journey has the steps at all of its places.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Literal

import msgspec

from goqueue.trace.events import (
    CONTEXT,
    NAMES,
    REPLICATED,
    UNKNOWN,
    VALIDATED,
    Place,
    Space,
    Step,
    TraceEvent,
    in_order,
)
from goqueue.trace.ids import TraceParent, derived_id, refused_id, span_id

Status = Literal["completed", "pending", "error", "retrying", "delayed", "expired"]
FIRST_COMMIT: Final = "first commit"  # detail of an ack: the group had committed nothing before
_WORST_FIRST: Final[tuple[Status, ...]] = ("error", "retrying", "pending", "expired", "completed")

# What a step says of the group that it is of.
_OF_GROUP: Final[dict[int, Status]] = {
    Step.FETCHED: "pending",
    Step.ACKED: "completed",
    Step.NACKED: "retrying",
    Step.REJECTED: "error",
    Step.RELEASED: "retrying",
    Step.VISIBILITY_TIMEOUT: "retrying",
    Step.RETRY_SCHEDULED: "retrying",
    Step.EXPIRED: "expired",
    Step.DLQ_ROUTED: "error",
}
# And of the message, whatever groups do.
_OF_MESSAGE: Final[dict[int, Status]] = {
    Step.PUBLISHED: "pending",
    Step.PUBLISH_PERSISTED: "pending",
    Step.PUBLISH_REJECTED: "error",
    Step.DELAY_SCHEDULED: "delayed",
    Step.DELAY_READY: "pending",
    Step.DELAY_CANCELLED: "completed",
    Step.EXPIRED: "expired",
    Step.TXN_ABORTED: "error",
}


class JourneyStep(msgspec.Struct, frozen=True):
    """One step, at one of the message's places."""

    event: str
    step: int
    time_us: int
    topic: str
    partition: int
    offset: int
    space: int
    node: int
    span_id: str
    group: str = ""
    member: str = ""
    client: str = ""
    address: str = ""
    duration_us: int = UNKNOWN
    attempt: int = 0
    until_ms: int = UNKNOWN
    error: str = ""
    detail: str = ""
    link_topic: str = ""
    link_partition: int = UNKNOWN
    link_offset: int = UNKNOWN
    link_space: int = Space.DATA
    is_derived: bool = False  # found in the log, which does not know more


class Journey(msgspec.Struct, frozen=True):
    trace_id: str
    parent_span_id: str
    topic: str
    partition: int
    offset: int
    space: int
    status: Status
    start_us: int
    end_us: int
    groups: dict[str, Status]
    steps: list[JourneyStep]

    @property
    def duration_us(self) -> int:
        return self.end_us - self.start_us


def assemble(
    place: Place,
    topic: str,
    events: Iterable[TraceEvent],
    places: Collection[Place] = (),
    parent: TraceParent | None = None,
    derived: Sequence[JourneyStep] = (),
) -> Journey:
    """The journey of the message at `place`, which also was or is at `places`.

    `derived` are steps that the logs tell of and no event does.
    """
    every = {place, *places}
    found = in_order(list({event.key: event for event in events}.values()))
    steps = list(derived)
    for event in found:
        for each in every:
            if event.step not in CONTEXT and event.holds(each):
                steps += expand(event, each.offset)
    steps.sort(key=lambda step: step.time_us)  # stable: as they were recorded
    steps = _name_groups(_without_strangers(_without_repeats(steps)))
    status, groups = _status_of(steps)
    start = steps[0].time_us if steps else 0
    end = steps[-1].time_us if steps else 0
    around = [
        event
        for event in found
        if event.step in CONTEXT
        and start <= event.time_us <= end
        and (event.group in groups if event.group else any(map(event.holds, every)))
    ]
    if around:
        steps += [each for event in around for each in expand(event, place.offset)]
        steps.sort(key=lambda step: step.time_us)
    return Journey(
        parent.trace_id if parent is not None else derived_id(place),
        parent.span_id if parent is not None else "",
        topic,
        place.partition,
        place.offset,
        place.space,
        status,
        start,
        end,
        groups,
        steps,
    )


def refusal(event: TraceEvent) -> Journey:
    """Of messages that were refused: they have no place."""
    steps = expand(event, UNKNOWN)
    return Journey(
        refused_id(*event.key),
        "",
        event.topic,
        event.partition,
        UNKNOWN,
        Space.DATA,
        "error",
        event.time_us,
        event.time_us,
        {},
        steps,
    )


def expand(event: TraceEvent, offset: int) -> list[JourneyStep]:
    """The steps of one message that an event stands for."""
    if event.step == Step.TRACE_LINKED:
        return []
    head = _step(event, offset)
    if event.step == Step.PUBLISH_PERSISTED and event.synced_us >= 0:
        start = msgspec.structs.replace(head, time_us=event.time_us - event.duration_us)
        return _persist_steps(event, start)
    if event.step != Step.PUBLISHED:
        return [head]
    steps = [msgspec.structs.replace(head, duration_us=UNKNOWN, detail="")]
    if event.validated_us >= 0:
        steps.append(_later(head, VALIDATED, event.validated_us, ""))
    if event.duration_us >= 0:
        steps += _persist_steps(event, head)
    return steps


def _persist_steps(event: TraceEvent, start: JourneyStep) -> list[JourneyStep]:
    """By the leader, and by all replicas in sync; one step if there are no others."""
    persisted = NAMES[Step.PUBLISH_PERSISTED]
    if event.synced_us < 0:
        return [_later(start, persisted, event.duration_us, event.detail)]
    return [
        _later(start, persisted, event.synced_us, f"on node {event.node}"),
        _later(start, REPLICATED, event.duration_us, event.detail),
    ]


def _later(head: JourneyStep, name: str, after_us: int, detail: str) -> JourneyStep:
    return msgspec.structs.replace(
        head,
        event=name,
        time_us=head.time_us + after_us,
        duration_us=after_us,
        detail=detail,
        span_id=span_id(head.span_id, name),
    )


def _step(event: TraceEvent, offset: int) -> JourneyStep:
    link = event.link_of(offset)
    return JourneyStep(
        NAMES[Step(event.step)],
        event.step,
        event.time_us,
        event.topic,
        event.partition,
        offset if event.first >= 0 else UNKNOWN,
        event.space,
        event.node,
        span_id(*event.key, offset),
        event.group,
        event.member,
        event.client,
        event.address,
        event.duration_us,
        event.attempt,
        event.until_ms,
        event.error,
        event.detail,
        event.link_topic,
        event.link_partition,
        UNKNOWN if link is None else link.offset,
        event.link_space,
    )


def _without_repeats(steps: list[JourneyStep]) -> list[JourneyStep]:
    """A publish that was persisted after it was written to the history is told of in two parts."""
    seen = set[tuple[str, str, int, int, str]]()
    found = []
    for step in steps:
        if step.event in (NAMES[Step.PUBLISH_PERSISTED], REPLICATED):
            key = step.event, step.topic, step.partition, step.offset, str(step.space)
            if key in seen:
                continue
            seen.add(key)
        found.append(step)
    return found


def _name_groups(steps: list[JourneyStep]) -> list[JourneyStep]:
    """A Kafka fetch does not say its group; the same client's commits do."""
    groups: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for step in steps:
        if step.group and step.client:
            who = step.client, host_of(step.address)
            groups.setdefault(who, set()).add((step.group, step.member))
    if not groups:
        return steps
    return [_with_group(step, groups) for step in steps]


def _with_group(
    step: JourneyStep, groups: Mapping[tuple[str, str], set[tuple[str, str]]]
) -> JourneyStep:
    if step.step != Step.FETCHED or step.group:
        return step
    known = groups.get((step.client, host_of(step.address)), set())
    if len({group for group, _ in known}) != 1:
        return step  # nobody, or several that cannot be told apart
    group, member = min(known)
    return msgspec.structs.replace(step, group=group, member=step.member or member)


def _without_strangers(steps: list[JourneyStep]) -> list[JourneyStep]:
    """A group's first commit says nothing of messages that it never read."""
    readers = {(step.client, host_of(step.address)) for step in steps if step.step == Step.FETCHED}
    return [
        step
        for step in steps
        if step.detail != FIRST_COMMIT or (step.client, host_of(step.address)) in readers
    ]


def host_of(address: str) -> str:
    return address.rpartition(":")[0] or address


def _status_of(steps: Sequence[JourneyStep]) -> tuple[Status, dict[str, Status]]:
    status: Status = "pending"
    groups, was_read = dict[str, Status](), False
    for step in steps:
        of_message = _OF_MESSAGE.get(step.step)
        if of_message is not None and not step.group:
            status = of_message
        of_group = _OF_GROUP.get(step.step)
        if of_group is not None and step.group:
            groups[step.group] = of_group
        elif step.step == Step.FETCHED:
            was_read = True
        if step.step == Step.DLQ_REDRIVEN:
            groups.clear()  # it begins again
            was_read = False
    if status != "pending":
        return status, groups
    if groups:
        return next(each for each in _WORST_FIRST if each in groups.values()), groups
    return ("completed" if was_read else "pending"), groups
