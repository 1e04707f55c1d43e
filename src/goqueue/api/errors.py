"""Errors as JSON."""

from typing import Any

import msgspec


class Problem(msgspec.Struct, frozen=True):
    """What went wrong: a word to match on, a sentence to read, and facts to go on with."""

    code: str
    message: str
    details: dict[str, Any] = {}


class MissingPartition(msgspec.Struct, frozen=True):
    """A partition that is not in the answer, since its leader did not give its part."""

    topic: str
    partition: int
    code: str
    message: str


class ErrorBody(msgspec.Struct, frozen=True):
    error: Problem
