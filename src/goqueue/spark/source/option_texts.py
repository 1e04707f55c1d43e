"""Options as people give them to Spark: texts by names in any case, read one by one.

Nothing is raised while they are read: all that is wrong is gathered, and said at once.  Jobs bring
options that are not for us (`kafka.linger.ms`, `checkpointLocation`): those are let be, unless they
look like a slip of the fingers.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from goqueue.client.errors import BadLogin, ClientError
from goqueue.client.kafka import (
    LOGIN_SETTINGS,
    NO_LOGIN,
    KafkaLogin,
    default_login,
    parse_login,
    read_login,
)
from goqueue.model.durations import parse_duration_ms

T = TypeVar("T")

HUGE: Final = 2**62
KAFKA: Final = "kafka."
LOGIN_FILE: Final = "kafka.login.file"
LOGIN_NAMES: Final = (LOGIN_FILE, *(f"{KAFKA}{name}" for name in LOGIN_SETTINGS))
SIMILAR: Final = 0.8  # of difflib's ratio


class InvalidOptions(ClientError):
    """Everything that is wrong with what a reader or writer was given."""


class Given:
    """Options by name, in any case; what is wrong with them gathers in `problems`."""

    def __init__(self, given: Mapping[str, str], names: Iterable[str]) -> None:
        """`names` are those that have a meaning here."""
        self.given = {name.lower(): value for name, value in given.items()}
        self.problems = _slips(self.given, names)

    def text(self, *names: str) -> str | None:
        """The first of these that is given."""
        found = (self.given.get(name.lower()) for name in names)
        return next((value.strip() for value in found if value is not None), None)

    def parse(self, name: str, parse: Callable[[str], T]) -> T | None:
        text = self.text(name)
        if text is None:
            return None
        try:
            return parse(text)
        except ValueError as error:
            self.problems.append(f"{name}: {error}")
            return None

    def bootstrap(self) -> str:
        text = self.text("bootstrap.servers", "kafka.bootstrap.servers")
        if not text:
            self.problems.append(
                "bootstrap.servers: where is the broker? Give HOST:PORT, 127.0.0.1:9092 say"
            )
        return text or ""

    def login(self) -> KafkaLogin:
        """By Kafka's settings with `kafka.` before them, or by a file of them; else by
        `GOQUEUE_KAFKA_CONFIG`."""
        texts = {name: self.text(f"{KAFKA}{name}") for name in LOGIN_SETTINGS}
        given = {name: text for name, text in texts.items() if text}
        path = self.text(LOGIN_FILE)
        try:
            if path and given:
                raise BadLogin(f"{LOGIN_FILE} and {KAFKA}{min(given)}: give one of them")
            if path:
                return read_login(path)
            return parse_login(given) if given else default_login()
        except BadLogin as error:
            self.problems.append(f"{KAFKA}{error}")
            return NO_LOGIN

    def whole(self, name: str, *, least: int = 1, most: int = HUGE) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            self.problems.append(f"{name}: {text!r} is not a whole number from {least} to {most}")
            return None
        return int(text)

    def size(self, name: str, *, most: int = HUGE) -> int | None:
        """Bytes: `1048576`, `1m`, `1MiB`, as Spark writes them."""
        text = self.text(name)
        if text is None:
            return None
        found = re.fullmatch(r"(\d{1,18})\s*([kmgt]?)(?:i?b)?", text.lower())
        size = int(found[1]) << (10 * " kmgt".index(found[2] or " ")) if found else 0
        if not 0 < size <= most:
            self.problems.append(f"{name}: {text!r} is not a size up to {most}: write 64m or bytes")
            return None
        return size

    def duration_ms(self, name: str, default: int) -> int:
        text = self.text(name)
        if text is None:
            return default
        found = self.parse(name, lambda text: parse_duration_ms(text.lower()))
        if found == 0:
            self.problems.append(f"{name}: {text!r} must be more than 0")
        return found or default

    def flag(self, name: str, default: bool) -> bool:
        text = self.text(name)
        match (text or str(default)).lower():
            case "true":
                return True
            case "false":
                return False
            case _:
                self.problems.append(f"{name}: {text!r} is neither true nor false")
                return default

    def choice(self, name: str, default: T, *others: T) -> T:
        """One of some words, the first of which is meant when nothing is said."""
        text = self.text(name)
        if text is None:
            return default
        for each in (default, *others):
            if text.lower() == each:
                return each
        words = ", ".join(map(str, (default, *others)))
        self.problems.append(f"{name}: {text!r} is none of {words}")
        return default


def refuse(doing: str, problems: list[str]) -> None:
    """Raises `InvalidOptions` if there are any: "cannot read from GoQueue, …"."""
    if problems:
        counted = "a problem" if len(problems) == 1 else f"{len(problems)} problems"
        lines = "".join(f"\n  - {problem}" for problem in problems)
        raise InvalidOptions(f"cannot {doing} GoQueue, {counted}:{lines}")


def _slips(given: Mapping[str, str], names: Iterable[str]) -> list[str]:
    known = {name.lower(): name for name in names}
    found = []
    for name in given.keys() - known.keys():
        similar = difflib.get_close_matches(name, known, n=1, cutoff=SIMILAR)
        if similar and not name.startswith("kafka."):
            found.append(f"{name}: did you mean {known[similar[0]]}?")
    return sorted(found)
