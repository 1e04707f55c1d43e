"""What is to be done for a schedule now: which run, with which message, to which partition."""

from typing import Final

import msgspec

from goqueue.broker.schedules.term import Term
from goqueue.broker.services import BrokerServices
from goqueue.cluster import Topic
from goqueue.cluster.controller import owner_id
from goqueue.model.ids import Timestamp, TopicId, TopicPartition
from goqueue.model.partitioner import murmur2_partition
from goqueue.model.record import Record
from goqueue.model.times import time_text
from goqueue.schedules import Due, Message, Plan, Schedule, find_due, render

NAME_HEADER: Final = "gq-schedule"
RUN_HEADER: Final = "gq-schedule-run"
TIME_HEADER: Final = "gq-scheduled-at"


class Work(msgspec.Struct, frozen=True):
    schedule: Schedule
    due: Due | None  # None: it was planned before
    number: int
    scheduled_at: Timestamp
    message: Message  # with its placeholders filled in
    topic_id: TopicId
    partition: int
    plan: Plan | None = None  # that stands; None: it is to be planned, or once more
    is_manual: bool = False
    shown_name: str = ""  # in the message: as the users of its tenant know it

    @property
    def name(self) -> str:
        return self.schedule.definition.name

    @property
    def place(self) -> TopicPartition:
        topic = self.schedule.definition.topic if self.plan is None else self.plan.topic
        return TopicPartition(topic, self.partition)

    def record(self, now: Timestamp) -> Record:
        message = self.message
        headers = (
            *message.headers,
            (NAME_HEADER, (self.shown_name or self.name).encode()),
            (RUN_HEADER, str(self.number).encode()),
            (TIME_HEADER, str(time_text(self.scheduled_at)).encode()),
        )
        return Record(0, now, message.key, message.value, headers)


def place_of(
    services: BrokerServices, term: Term, schedule: Schedule, now: Timestamp
) -> TopicPartition:
    """Where its next run goes; raises `TopicNotFound`."""
    definition = schedule.definition
    key = definition.message.key
    if schedule.plan is None and (key is None or b"{{" not in key):
        topic = services.topic(definition.topic)
        number = schedule.run_count + 1
        return TopicPartition(topic.name, choose_partition(definition.message, topic, number))
    work = find_work(services, term, schedule, now)
    if isinstance(work, Work):
        return work.place
    return TopicPartition(definition.topic, 0)  # where it is seen that there is nothing to do


def find_work(
    services: BrokerServices, term: Term, schedule: Schedule, now: Timestamp
) -> Work | Due | None:
    """The run that is due; a `Due` that only skips some; None: nothing is due."""
    wakes_at = schedule.wakes_at
    if wakes_at is None or wakes_at > now:
        return None
    if schedule.plan is not None:
        return _planned_work(services, term, schedule, schedule.plan)
    due = find_due(schedule, now)
    if due is None or due.scheduled_at is None:
        return due
    number = schedule.run_count + 1
    return _new_work(services, schedule, due, number, due.scheduled_at, is_manual=due.is_manual)


def _planned_work(services: BrokerServices, term: Term, schedule: Schedule, plan: Plan) -> Work:
    """Where it was planned; anew where it surely was not written, and never will be."""
    number, at = plan.number, plan.scheduled_at
    is_there = (
        services.has_topic(plan.topic) and services.topic(plan.topic).topic_id == plan.topic_id
    )
    name = schedule.definition.name
    if is_there and name not in term.superseded:
        shown = _shown_name(services, name)
        stays = Work(
            schedule,
            None,
            number,
            at,
            render(schedule.definition, number, at, shown),
            plan.topic_id,
            plan.partition,
            plan,
            plan.is_manual,
            shown,
        )
        if name not in term.unwritten:
            return stays
        moved = _new_work(services, schedule, None, number, at, is_manual=plan.is_manual)
        return stays if moved.place == stays.place else moved
    return _new_work(services, schedule, None, number, at, is_manual=plan.is_manual)


def _new_work(
    services: BrokerServices,
    schedule: Schedule,
    due: Due | None,
    number: int,
    at: Timestamp,
    *,
    is_manual: bool,
) -> Work:
    topic = services.topic(schedule.definition.topic)
    shown = _shown_name(services, schedule.definition.name)
    message = render(schedule.definition, number, at, shown)
    partition = choose_partition(message, topic, number)
    return Work(
        schedule,
        due,
        number,
        at,
        message,
        topic.topic_id,
        partition,
        is_manual=is_manual,
        shown_name=shown,
    )


def _shown_name(services: BrokerServices, name: str) -> str:
    tenant = owner_id(services.metadata, name)
    return name.removeprefix(f"{tenant}.") if tenant else name


def choose_partition(message: Message, topic: Topic, number: int) -> int:
    """The one that is named, or that of the key; without both in turn, by the run's number."""
    if message.partition is not None:
        topic.check_partition(message.partition)
        return message.partition
    if message.key is not None:
        return murmur2_partition(message.key, topic.partitions)
    return (number - 1) % topic.partitions
