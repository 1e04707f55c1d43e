"""Compatibility levels, and what they demand of a new schema."""

from enum import StrEnum

from goqueue.schemas.errors import InvalidCompatibility
from goqueue.schemas.schema import Incompatibility, Schema


class Level(StrEnum):
    """Who reads whose data: BACKWARD: the new schema reads what the old one wrote.

    A TRANSITIVE level looks at all former versions, the others at the latest.
    """

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        return self.endswith("_TRANSITIVE")


def read_level(text: str) -> Level:
    try:
        return Level(text.upper())
    except ValueError:
        raise InvalidCompatibility(
            f"{text[:50]!r} is no compatibility level; one of {', '.join(Level)}"
        ) from None


def find_incompatibilities(new: Schema, old: Schema, level: Level) -> list[Incompatibility]:
    """The rules of the level that the new schema breaks; none if it may follow the old one."""
    if level is Level.NONE:
        return []
    if new.schema_type is not old.schema_type:
        text = f"the schema type was {old.schema_type}, now {new.schema_type}"
        return [Incompatibility("SCHEMA_TYPE_CHANGED", "", text)]
    found: list[Incompatibility] = []
    if not level.startswith("FORWARD"):
        found += new.unreadable(old)
    if not level.startswith("BACKWARD"):
        found += [each for each in old.unreadable(new) if each not in found]
    return found
