"""The one grammar of names, checked at the edge: `[a-zA-Z0-9._-]{1,249}`, not `.` or `..`.

A name that passes is safe as a path component, a URL segment, and a metric label.
"""

import re

from goqueue.model.errors import InvalidName, PolicyViolation
from goqueue.model.ids import TopicName

NAME_LENGTH_MAX = 249
INTERNAL_PREFIX = "__"

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)


def topic_name(text: str) -> TopicName:
    """`text` as a topic's name; raises `InvalidName`."""
    if text in (".", "..") or _NAME.fullmatch(text) is None:
        shown = text if len(text) <= 60 else f"{text[:60]}… ({len(text)} characters)"
        raise InvalidName(
            f"topic name {shown!r} is not allowed: use 1 to {NAME_LENGTH_MAX} of a-z A-Z 0-9 . _ -"
            " and neither '.' nor '..'"
        )
    return TopicName(text)


def check_length(name: str, what: str) -> None:
    """Raises `InvalidName` for a group or a consumer, which may have any characters."""
    if not 0 < len(name) <= NAME_LENGTH_MAX:
        raise InvalidName(f"a {what} has a name of 1 to {NAME_LENGTH_MAX} characters")


def is_internal(name: str) -> bool:
    """Whether the topic is the broker's own, hidden from clients unless asked for."""
    return name.startswith(INTERNAL_PREFIX)


def refuse_internal(name: str) -> None:
    """Raises `PolicyViolation` for a topic of the broker's own."""
    if is_internal(name):
        raise PolicyViolation(f"{name!r} is the broker's own topic")
