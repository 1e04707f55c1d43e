"""Placeholders in the texts of a scheduled message: filled in once, with plain values.

    {{name}}                of the schedule
    {{run}}                 the number of the run: 1, 2, 3 …
    {{scheduled_at}}        when it was due, RFC 3339 in UTC: 2026-03-29T07:00:00.000Z
    {{scheduled_at_ms}}     the same in milliseconds since 1970
    {{scheduled_at_local}}  the same in the schedule's time zone: 2026-03-29T09:00:00+02:00
    {{scheduled_date}}      its day in the schedule's time zone: 2026-03-29

What is filled in has only letters, digits and `._:+-`, so it fits inside of a JSON text, and it is
not looked at again: no placeholder comes from another one.
"""

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from difflib import get_close_matches
from typing import Final

import msgspec

from goqueue.model.ids import Timestamp
from goqueue.model.times import EPOCH, time_text
from goqueue.schedules.errors import Mistake
from goqueue.schedules.schedule import Definition, Message
from goqueue.schedules.zones import zone_of

TEMPLATE_BYTES_MAX: Final = 64 * 1024  # of value, key and headers together

_PLACEHOLDER: Final = re.compile(rb"\{\{ *([a-zA-Z_]{1,40}) *\}\}")


class RunFacts(msgspec.Struct, frozen=True):
    """What placeholders stand for."""

    name: str
    run: int
    scheduled_at: Timestamp
    timezone: str

    @property
    def local(self) -> str:
        moment = EPOCH + timedelta(milliseconds=self.scheduled_at)
        return moment.astimezone(zone_of(self.timezone)).isoformat(timespec="seconds")


PLACEHOLDERS: Final[Mapping[str, Callable[[RunFacts], str]]] = {
    "name": lambda facts: facts.name,
    "run": lambda facts: str(facts.run),
    "scheduled_at": lambda facts: str(time_text(facts.scheduled_at)),
    "scheduled_at_ms": lambda facts: str(facts.scheduled_at),
    "scheduled_at_local": lambda facts: facts.local,
    "scheduled_date": lambda facts: facts.local[:10],
}


def render(definition: Definition, number: int, scheduled_at: Timestamp, name: str = "") -> Message:
    """The message of a run; `name` is the schedule's as its owner knows it, if that differs."""
    message = definition.message
    if not message.is_template:
        return message
    facts = RunFacts(name or definition.name, number, scheduled_at, definition.timing.timezone)

    def fill(text: bytes | None) -> bytes | None:
        return None if text is None else _PLACEHOLDER.sub(lambda found: _value(found, facts), text)

    return Message(
        fill(message.value),
        fill(message.key),
        tuple((name, fill(value)) for name, value in message.headers),
        message.partition,
        is_template=False,
    )


def _value(found: re.Match[bytes], facts: RunFacts) -> bytes:
    return PLACEHOLDERS[found[1].decode()](facts).encode()


def find_template_mistakes(message: Message) -> list[Mistake]:
    """Placeholders that nobody knows, and texts that are too large."""
    found: list[Mistake] = []
    if message.size > TEMPLATE_BYTES_MAX:
        text = f"{message.size} bytes of value, key and headers, {TEMPLATE_BYTES_MAX} allowed"
        found.append(Mistake("message", text))
    if message.is_template:
        texts = [("value", message.value), ("key", message.key)]
        texts += [("headers", value) for _, value in message.headers]
        found += [each for field, text in texts for each in _unknown(field, text or b"")]
    return found


def _unknown(field: str, text: bytes) -> list[Mistake]:
    names = {each[1].decode() for each in _PLACEHOLDER.finditer(text)}
    return [
        _mistake(field, name, get_close_matches(name, list(PLACEHOLDERS), n=1))
        for name in sorted(names - PLACEHOLDERS.keys())
    ]


def _mistake(field: str, name: str, near: list[str]) -> Mistake:
    known = ", ".join(f"{{{{{each}}}}}" for each in PLACEHOLDERS)
    text = f"unknown placeholder {{{{{name}}}}}; known are {known}"
    return Mistake(f"message.{field}", text, f"{{{{{near[0]}}}}}" if near else "")
