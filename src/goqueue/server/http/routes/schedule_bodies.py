"""Schedules as they come in and go out."""

from datetime import timedelta

import msgspec

from goqueue.api import schedules as api
from goqueue.api.messages import Encoding, HeaderBody, MessageInput
from goqueue.api.parsing import parse_time, parse_wait
from goqueue.broker.schedules.term import Failure
from goqueue.model.errors import InvalidRequest
from goqueue.model.ids import Timestamp, TopicName
from goqueue.model.record import Record
from goqueue.model.times import EPOCH, time_text
from goqueue.schedules import Definition, Message, Missed, Run, Schedule, Timing
from goqueue.schedules.errors import InvalidSchedule, Mistake
from goqueue.schedules.zones import zone_of
from goqueue.server.http.routes.message_bodies import message_body, to_outgoing


def read_definition(name: str, given: api.ScheduleInput) -> Definition:
    """Raises `InvalidSchedule` for what cannot be read; what it means is checked later."""
    return Definition(
        name,
        TopicName(given.topic),
        read_timing(given),
        _read_message(given.message),
        given.max_runs,
        Missed(given.missed),
        given.missed_max,
        _milliseconds(given.grace, "grace"),
        given.description,
    )


def read_timing(given: api.ScheduleInput | api.PreviewInput) -> Timing:
    every_ms = 0 if given.every is None else _milliseconds(given.every, "every")
    if given.every is not None and not every_ms:
        raise InvalidSchedule.of([Mistake("every", "0; 1s to 100 years are possible")])
    return Timing(
        (given.cron or "").strip(),
        every_ms,
        given.timezone,
        _moment(given.start, "start"),
        _moment(given.end, "end"),
    )


def _milliseconds(given: int | str, name: str) -> int:
    return parse_wait(given, name) if isinstance(given, str) else given


def _moment(given: int | str | None, name: str) -> Timestamp | None:
    if isinstance(given, str):
        return parse_time(given, name)
    return None if given is None else Timestamp(given)


def _read_message(given: api.ScheduledMessage) -> Message:
    wanted = MessageInput(
        msgspec.Raw(msgspec.json.encode(given.value)),
        given.key,
        given.headers,
        given.partition,
        priority=given.priority,
        ttl=given.ttl,
    )
    try:
        found = to_outgoing(wanted, 0, given.encoding)
    except InvalidRequest as error:
        raise InvalidRequest(str(error).replace("messages[0]", "message", 1)) from error
    is_template = given.encoding == "text"
    return Message(found.value, found.key, found.headers, found.partition, is_template)


# --- what goes out --------------------------------------------------------------------------------


def schedule_body(schedule: Schedule, failure: Failure | None) -> api.ScheduleBody:
    definition = schedule.definition
    timing = definition.timing
    next_at = None if schedule.is_paused else schedule.next_at
    return api.ScheduleBody(
        name=definition.name,
        status=schedule.status,
        version=schedule.version,
        topic=definition.topic,
        message=_template_body(definition.message),
        cron=timing.cron or None,
        every_ms=timing.every_ms or None,
        timezone=timing.timezone,
        text=timing.describe(),
        start=_time(timing.start),
        end=_time(timing.end),
        max_runs=definition.max_runs,
        missed=definition.missed,
        missed_max=definition.missed_max,
        grace_ms=definition.grace_ms,
        description=definition.description,
        created_at=time_text(schedule.created_at),
        updated_at=time_text(schedule.updated_at),
        next_run_at=_time(next_at),
        runs=schedule.run_count,
        missed_runs=schedule.missed_count,
        last_run=run_body(schedule.runs[-1]) if schedule.runs else None,
        error=error_body(failure),
    )


def _template_body(message: Message) -> api.MessageTemplate:
    record = Record(0, -1, message.key, message.value, message.headers)
    body = message_body(record, 0, "auto" if message.is_template else "base64")
    headers = [HeaderBody(each.name, each.value) for each in body.headers]
    encoding: Encoding = "text" if message.is_template else "base64"
    return api.MessageTemplate(body.value, body.key, headers, message.partition, encoding)


def run_body(run: Run) -> api.RunBody:
    return api.RunBody(
        run.number,
        time_text(run.scheduled_at),
        time_text(run.published_at),
        max(0, run.published_at - run.scheduled_at),
        run.topic,
        run.partition,
        run.offset,
        run.is_manual,
    )


def error_body(failure: Failure | None) -> api.RunError | None:
    if failure is None:
        return None
    return api.RunError(
        failure.problem,
        time_text(failure.since),
        failure.attempts,
        time_text(failure.retry_at) if failure.retry_at else None,
    )


def preview_body(timing: Timing, runs: list[Timestamp]) -> api.PreviewBody:
    zone = zone_of(timing.timezone)
    found = [
        api.PreviewRun(
            time_text(at),
            (EPOCH + timedelta(milliseconds=at)).astimezone(zone).isoformat(timespec="seconds"),
        )
        for at in runs
    ]
    return api.PreviewBody(timing.describe(), timing.timezone, found)


def _time(at: Timestamp | None) -> api.TimeBody:
    return None if at is None else time_text(at)
