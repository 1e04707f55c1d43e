"""Payloads against a JSON Schema: jsonschema-rs, compiled once, within bounds."""

from typing import Any, Final

import jsonschema_rs
import msgspec

from goqueue.schemas.errors import InvalidSchema
from goqueue.schemas.json.references import Node
from goqueue.schemas.json.typed import Typed
from goqueue.schemas.json.work import Looks
from goqueue.schemas.limits import (
    BACKTRACKS_MAX,
    PAYLOAD_DEPTH_MAX,
    REASON_WORK_MAX,
    WORK_MAX,
)
from goqueue.schemas.schema import Problem

_DRAFTS = {
    "draft-04": (jsonschema_rs.Draft4Validator, jsonschema_rs.Draft4),
    "draft-06": (jsonschema_rs.Draft6Validator, jsonschema_rs.Draft6),
    "draft-07": (jsonschema_rs.Draft7Validator, jsonschema_rs.Draft7),
    "2019-09": (jsonschema_rs.Draft201909Validator, jsonschema_rs.Draft201909),
    "2020-12": (jsonschema_rs.Draft202012Validator, jsonschema_rs.Draft202012),
}
DEFAULT_DRAFT = "draft-07"
TYPED_BYTES_MAX: Final = 64 * 1024  # of a payload that is decoded before its values are counted
OPENED_STEPS: Final = 2  # by which a list or object takes longer than another value


def draft_of(document: Node) -> str:
    """By `$schema`; without one as Confluent's registry takes it."""
    declared = document.get("$schema") if isinstance(document, dict) else None
    if declared is None:
        return DEFAULT_DRAFT
    for name in _DRAFTS:
        if isinstance(declared, str) and name in declared:
            return name
    raise InvalidSchema(f"$schema {declared!r} is none of {', '.join(_DRAFTS)}")


def compile_schema(document: Node, named: dict[str, Node]) -> Any:
    """Raises `InvalidSchema` where the draft's own schema, or a pattern, is broken."""
    try:
        draft, number = _DRAFTS[draft_of(document)]
        # Referenced schemas that name no draft are of this one's.
        registry = jsonschema_rs.Registry(list(named.items()), number) if named else None
        options = jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACKS_MAX)
        return draft(document, registry=registry, pattern_options=options, offline=True)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        message = getattr(error, "message", None) or str(error)
        where = "/".join(str(each) for each in getattr(error, "instance_path", ()))
        raise InvalidSchema(f"invalid JSON Schema at /{where}: {message[:500]}") from error


class JsonValidator:
    weight = 1

    def __init__(self, compiled: Any, looks: Looks, typed: Typed | None) -> None:
        self._compiled = compiled
        self._typed = typed
        self._looks = looks

    def check(self, payload: memoryview) -> Problem | None:
        is_small = len(payload) <= TYPED_BYTES_MAX
        if is_small and self._typed is not None and self._is_accepted(self._typed, payload):
            return None
        return self._check_wholly(bytes(payload))

    def _is_accepted(self, typed: Typed, payload: memoryview) -> bool:
        """If not, it may be valid all the same."""
        try:
            typed.decoder.decode(payload)
            if typed.skips:
                data = bytes(payload)
                if not data.isascii():
                    data.decode()
                return _count_opened(data) <= PAYLOAD_DEPTH_MAX
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        return True

    def _check_wholly(self, data: bytes) -> Problem | None:
        """What it would cost is looked at first: neither decoding nor validating can be ended."""
        opened = _count_opened(data)
        values = 1 + opened + data.count(b",")  # at most
        steps = values + OPENED_STEPS * opened
        work = self._looks.at(opened) * steps
        if opened > PAYLOAD_DEPTH_MAX or work > REASON_WORK_MAX:
            if steps >= WORK_MAX:
                return Problem("", f"{values} values take too long to validate")
            depth = _measure_depth(data)
            if depth > PAYLOAD_DEPTH_MAX:
                return Problem("", f"nested deeper than {PAYLOAD_DEPTH_MAX} levels")
            work = self._looks.at(depth) * steps
            if work >= WORK_MAX:  # what is more than that is counted as that
                return Problem("", f"{depth} levels of {values} values take too long to validate")
        try:
            document = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return Problem("", f"not JSON: {error}")
        if self._compiled.is_valid(document):
            return None
        if work > REASON_WORK_MAX:
            return Problem("", "not valid against the schema")
        return self._explain(document)

    def _explain(self, document: Any) -> Problem:
        try:
            self._compiled.validate(document)
        except jsonschema_rs.ValidationError as error:
            path = "".join(f"/{_escape(str(each))}" for each in error.instance_path)
            return Problem(path, error.message[:500])
        return Problem("", "not valid against the schema")


def _count_opened(data: bytes) -> int:
    """Lists and objects in the text, at most: it is nested no deeper."""
    return data.count(b"[") + data.count(b"{")


def _measure_depth(data: bytes) -> int:
    """How deep the text is nested, at most."""
    depth = deepest = 0
    for byte in data.translate(None, _NO_BRACKETS):
        if byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        else:
            depth -= 1
    return deepest


_NO_BRACKETS = bytes(each for each in range(256) if each not in b"[]{}")


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
