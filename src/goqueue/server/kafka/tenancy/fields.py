"""The names in Kafka's requests and responses, found by the types of the fields.

kio types each name (`TopicName`, `GroupId`, `TransactionalId`): so for each class a function is
made, once, that gives an object with all of its names changed, however deep they are.  Texts for
people (`error_message`) are changed by another function.  `messages.py` has what has no such type.
"""

import dataclasses
import typing
from collections.abc import Callable, Hashable
from functools import cache
from types import NoneType
from typing import Any, Final, NamedTuple

NAME_TYPES: Final = frozenset({"TopicName", "GroupId", "TransactionalId"})
TEXT_SUFFIX: Final = "error_message"

Change = Callable[[str], str]


class Changes(NamedTuple):
    name: Change
    text: Change


class _Field(NamedTuple):
    name: str
    inner: type[Any] | None  # of objects in it; None: it is a name, or a text
    is_text: bool


def change_names(value: Any, changes: Changes) -> Any:
    """The same object with the names changed; itself if it has none."""
    changed = {}
    for field in _fields(typing.cast(Hashable, type(value))):
        before = getattr(value, field.name)
        after = _change(before, field, changes)
        if after is not before:
            changed[field.name] = after
    return dataclasses.replace(value, **changed) if changed else value


def _change(value: Any, field: _Field, changes: Changes) -> Any:
    if value is None:
        return None
    if isinstance(value, tuple):
        return tuple(_change(each, field, changes) for each in value)
    if field.inner is not None:
        return change_names(value, changes)
    return changes.text(value) if field.is_text else changes.name(value)


@cache
def _fields(cls: Hashable) -> tuple[_Field, ...]:
    """Those that have names, or objects that have."""
    shape = typing.cast(type[Any], cls)
    hints = typing.get_type_hints(shape)
    found = []
    for field in dataclasses.fields(shape):
        leaf = _leaf(hints[field.name])
        if dataclasses.is_dataclass(leaf):
            if _fields(typing.cast(Hashable, leaf)):
                found.append(_Field(field.name, typing.cast(type[Any], leaf), is_text=False))
        elif getattr(leaf, "__name__", "") in NAME_TYPES:
            found.append(_Field(field.name, None, is_text=False))
        elif field.name.endswith(TEXT_SUFFIX):
            found.append(_Field(field.name, None, is_text=True))
    return tuple(found)


def _leaf(hint: Any) -> Any:
    """What is in a tuple, or may be None."""
    while args := [each for each in typing.get_args(hint) if each not in (NoneType, Ellipsis)]:
        hint = args[0]
    return hint
