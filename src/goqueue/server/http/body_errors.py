"""What is wrong with a request, in words that help: which field, what was meant, what there is."""

import difflib
import re
from collections.abc import Iterable
from typing import Final

from goqueue.model.durations import DURATION_EXAMPLES, DURATION_PATTERN

SIMILAR: Final = 0.6  # of difflib's ratio: close enough to be a slip of the fingers
BODY: Final = "the body"

_UNKNOWN_FIELD: Final = re.compile(r"Object contains unknown field `(.*)`")
_PLACE: Final = re.compile(r" - at `\$\.?(.*?)`$")


def hint(name: str, known: Iterable[str]) -> str:
    """What was meant, or else all that could be."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=SIMILAR)
    if close:
        return f"; did you mean `{close[0]}`?"
    return f"; known are {', '.join(f'`{each}`' for each in names)}" if names else ""


def unknown_field(text: str) -> str | None:
    """The field that a decoder's message says nobody knows."""
    found = _UNKNOWN_FIELD.search(text)
    return None if found is None else found[1]


def field_text(text: str, known: Iterable[str]) -> str:
    """A decoder's message about one value, as a person would say it."""
    name = unknown_field(text)
    if name is not None:
        return f"unknown field `{name}`{hint(name, known)}"
    if "matching regex" in text and DURATION_PATTERN.replace("\\", "\\\\") in text:
        return f"expected a duration: {DURATION_EXAMPLES}, or a plain number"
    return text[:1].lower() + text[1:]


def split_place(text: str) -> tuple[str, str]:
    """Where in the body something is wrong (empty: everywhere), and what."""
    found = _PLACE.search(text)
    return ("", text) if found is None else (found[1], text[: found.start()])


def not_json(text: str) -> str:
    """For a body that could not be decoded at all."""
    if "truncated" in text:
        return f"{BODY} is not JSON: it ends in the middle"
    return f"{BODY} is not JSON: {text.removeprefix('JSON is malformed: ')}"


def empty_body(known: Iterable[str]) -> str:
    names = ", ".join(f"`{each}`" for each in known)
    return f"{BODY} is empty: send a JSON object" + (f" with {names}" if names else "")
