"""A request of Confluent's API, and which operation it is.

Names of subjects may have slashes in them (of Protobuf's imports, say), so paths are told apart by
patterns, not by their parts.  Below `/contexts/.NAME` the same operations see the subjects of that
context, by names without it.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import unquote

import msgspec

from goqueue.broker import Broker
from goqueue.broker.schemas.service import Schemas
from goqueue.model.errors import InvalidRequest
from goqueue.schemas import GLOBAL, SchemaText, context_prefix, subject_name
from goqueue.server.http.registry.bodies import SentSchema, read_version
from goqueue.server.http.security.visibility import SchemaVisibility

ALL_CONTEXTS: Final = ":*:"

BodyT = TypeVar("BodyT")


class Call(msgspec.Struct, frozen=True):
    broker: Broker
    parts: Mapping[str, str]  # of the path
    query: Mapping[str, Sequence[str]]
    content: bytes
    context: str  # what the names of subjects begin with; empty: the default one
    visibility: SchemaVisibility

    @property
    def schemas(self) -> Schemas:
        return self.broker.schemas

    @property
    def subject(self) -> str:
        return self._qualify(subject_name(self.parts["subject"]))

    @property
    def everything(self) -> str:
        """What stands for all subjects in settings: all there are, or those of the context."""
        return self.context or GLOBAL

    @property
    def prefix(self) -> str:
        """Of the subjects that are asked for."""
        wanted = self.one("subjectPrefix")
        if wanted.startswith(ALL_CONTEXTS):
            return wanted.removeprefix(ALL_CONTEXTS)
        return self._qualify(wanted)

    def _qualify(self, name: str) -> str:
        return name if name.startswith(":.") else self.context + name

    @property
    def version(self) -> int:
        return read_version(self.parts["version"])

    def one(self, name: str, default: str = "") -> str:
        found = self.query.get(name)
        return found[-1] if found else default

    def many(self, name: str) -> list[str]:
        """As clients send them: encoded for an address twice."""
        return [unquote(each) for each in self.query.get(name, ())]

    def flag(self, name: str) -> bool:
        return self.one(name).lower() == "true"

    def body(self, kind: type[BodyT]) -> BodyT:
        try:
            return msgspec.json.decode(self.content, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidRequest(f"the body is not what is expected: {error}") from error

    def schema(self) -> SchemaText:
        """References of a schema in a context are to subjects of it, unless they say more."""
        return self.body(SentSchema).text(context_prefix(self.subject))


Operation = Callable[[Call], Awaitable[Any]]
OPERATIONS: Final[list[tuple[str, re.Pattern[str], Operation]]] = []
_CONTEXT: Final = re.compile(r"/contexts/(?P<name>[^/]+)(?P<rest>/.*|)")


def find_operation(method: str, path: str) -> tuple[Operation, Mapping[str, str]] | None:
    for known, pattern, operation in OPERATIONS:
        match = pattern.fullmatch(path) if known == method else None
        if match is not None:
            return operation, match.groupdict()
    return None


def split_context(path: str) -> tuple[str, str]:
    """What the names of subjects begin with, and the path below it."""
    match = _CONTEXT.fullmatch(path)
    if match is None:
        return "", path
    name = match["name"].strip(":").removeprefix(".")
    return f":.{name}:" if name else "", match["rest"] or "/"


def add(method: str, path: str) -> Callable[[Operation], Operation]:
    """`{subject}` may hold slashes, other parts none."""
    pattern = path.replace("{subject}", "(?P<subject>.+)")
    pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", pattern)

    def note(operation: Operation) -> Operation:
        OPERATIONS.append((method, re.compile(pattern), operation))
        return operation

    return note
