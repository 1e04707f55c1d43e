"""What is wrong with a schedule, all at once."""

from typing import Final

from goqueue.model.errors import InvalidName, PolicyViolation
from goqueue.model.ids import Timestamp
from goqueue.model.names import refuse_internal, topic_name
from goqueue.schedules.errors import InvalidSchedule, Mistake
from goqueue.schedules.schedule import MISSED_MAX, Definition
from goqueue.schedules.template import find_template_mistakes
from goqueue.schedules.timing import INTERVAL_MS_MAX, find_timing_mistakes

DESCRIPTION_LENGTH_MAX: Final = 1_000
HEADERS_MAX: Final = 100
RESERVED_PREFIX: Final = "gq-schedule"  # of the headers that each run has


def check_definition(definition: Definition, now: Timestamp) -> None:
    """Raises `InvalidSchedule` with all mistakes."""
    mistakes = find_mistakes(definition, now)
    if mistakes:
        raise InvalidSchedule.of(mistakes)


def find_mistakes(definition: Definition, now: Timestamp) -> list[Mistake]:
    return [
        *_find_name_mistakes(definition),
        *find_timing_mistakes(definition.timing, now),
        *_find_limit_mistakes(definition),
        *find_template_mistakes(definition.message),
    ]


def _find_name_mistakes(definition: Definition) -> list[Mistake]:
    found: list[Mistake] = []
    try:
        topic_name(definition.name)
    except InvalidName as error:
        found.append(Mistake("name", str(error).removeprefix("topic ")))
    try:
        refuse_internal(topic_name(definition.topic))
    except (InvalidName, PolicyViolation) as error:
        found.append(Mistake("topic", str(error)))
    return found


def _find_limit_mistakes(definition: Definition) -> list[Mistake]:
    found: list[Mistake] = []
    if definition.max_runs is not None and definition.max_runs < 1:
        found.append(Mistake("max_runs", f"{definition.max_runs}; 1 or more"))
    if not 1 <= definition.missed_max <= MISSED_MAX:
        found.append(Mistake("missed_max", f"{definition.missed_max}; 1 to {MISSED_MAX}"))
    if not 0 <= definition.grace_ms <= INTERVAL_MS_MAX:
        found.append(Mistake("grace", f"{definition.grace_ms} ms; 0 to 100 years"))
    if len(definition.description) > DESCRIPTION_LENGTH_MAX:
        text = f"{len(definition.description)} characters, {DESCRIPTION_LENGTH_MAX} allowed"
        found.append(Mistake("description", text))
    names = [name for name, _ in definition.message.headers]
    if len(names) > HEADERS_MAX:
        found.append(Mistake("message.headers", f"{len(names)}, {HEADERS_MAX} allowed"))
    found += [
        Mistake("message.headers", f"{name!r} is a header that every run has")
        for name in names
        if name.startswith(RESERVED_PREFIX)
    ]
    return found
