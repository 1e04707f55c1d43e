"""What groups know of topics: a view that the broker hands in whenever it changes.

Groups never look topics up in the world: the machine holds the newest `TopicsView` it was given,
so what it decides depends on its arguments alone.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

import msgspec
import re2

from goqueue.groups.errors import InvalidRegularExpression
from goqueue.model.ids import TopicId, TopicName
from goqueue.security import Principal

REGEX_LENGTH_MAX = 1_000
SEPARATOR: Final = "\0"  # behind the names' prefix that a regular expression is limited to
REGEX_MEMORY_BYTES: Final = 1_048_576


class Viewer(msgspec.Struct, frozen=True):
    """Who looks at topics, and from where: a regular expression matches what it may see."""

    principal: Principal
    host: str
    reads: bool = False  # the broker reads for it: then it sees what it may read


class TopicFacts(msgspec.Struct, frozen=True, gc=False):
    """All that an assignment needs to know of a topic."""

    topic_id: TopicId
    name: TopicName
    partition_count: int


MaySee = Callable[[Viewer, TopicName], bool]


class TopicsView(Protocol):
    def find_by_name(self, name: TopicName) -> TopicFacts | None: ...

    def find_by_id(self, topic_id: TopicId) -> TopicFacts | None: ...

    def match(self, regex: str, viewer: Viewer | None) -> Sequence[TopicName]:
        """The names that `regex` matches as a whole, of those that the viewer may see.

        Raises `InvalidRegularExpression`.
        """


class Topics:
    """A view made of a list; immutable."""

    def __init__(self, topics: Iterable[TopicFacts] = (), may_see: MaySee | None = None) -> None:
        """`may_see` says what regular expressions match; without it, whatever there is."""
        self._may_see = may_see
        self._by_name = {topic.name: topic for topic in topics}
        self._by_id = {topic.topic_id: topic for topic in self._by_name.values()}

    def find_by_name(self, name: TopicName) -> TopicFacts | None:
        return self._by_name.get(name)

    def find_by_id(self, topic_id: TopicId) -> TopicFacts | None:
        return self._by_id.get(topic_id)

    def match(self, regex: str, viewer: Viewer | None) -> Sequence[TopicName]:
        found = filter(name_filter(regex), self._by_name)
        if viewer is None or self._may_see is None:
            return list(found)
        return [name for name in found if self._may_see(viewer, name)]


def in_namespace(prefix: str, regex: str) -> str:
    """A regular expression for what follows the prefix, of names that begin with it."""
    return f"{prefix}{SEPARATOR}{regex}"


def show_regex(regex: str) -> str:
    """For people, who write names with their prefix."""
    return regex.replace(SEPARATOR, "")


def name_filter(regex: str) -> Callable[[str], bool]:
    """Whether it matches the whole of a name; raises `InvalidRegularExpression`."""
    prefix, is_divided, own = regex.partition(SEPARATOR)
    if not is_divided:
        prefix, own = "", regex
    pattern, start = compile_regex(own), len(prefix)
    return lambda name: name.startswith(prefix) and bool(pattern.fullmatch(name[start:]))


def compile_regex(regex: str) -> Any:
    """The pattern, or `InvalidRegularExpression` with the mistake.

    RE2 (whose syntax KIP-848 prescribes) matches in time linear in the text: patterns come from
    strangers, and one like `(a+)+$` keeps a backtracking matcher busy for years.
    """
    if len(regex) > REGEX_LENGTH_MAX:
        raise InvalidRegularExpression(
            f"pattern of {len(regex)} characters, {REGEX_LENGTH_MAX} allowed"
        )
    try:
        return re2.compile(regex, _regex_options())
    except (re2.error, UnicodeError) as error:
        raise InvalidRegularExpression(f"{regex!r}: {_reason(error)}") from error


def _regex_options() -> Any:
    options = re2.Options()
    options.max_mem = REGEX_MEMORY_BYTES
    options.never_capture = True
    options.log_errors = False
    return options


def _reason(error: Exception) -> str:
    said = error.args[0]
    return said.decode(errors="replace") if isinstance(said, bytes) else str(error)
