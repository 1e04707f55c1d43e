"""From a file's text to a `Pipeline`, with everything that is wrong in it at once.

Structs are converted field by field, because a conversion as a whole ends at its first mistake.
"""

from collections.abc import Iterable, Mapping
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from goqueue.spark.pipelines.checks import check
from goqueue.spark.pipelines.model import (
    ArchiveSink,
    ConsoleSink,
    FileSink,
    FileSource,
    Pipeline,
    Step,
    TableSink,
    TopicSink,
    TopicSource,
)
from goqueue.spark.pipelines.suggestions import suggestion
from goqueue.spark.pipelines.tree import Path, PipelineProblems, Tree

# The key that tells what a source or a sink is.
SOURCE_KINDS: Final[dict[str, Any]] = {
    "topic": TopicSource,
    "topics": TopicSource,
    "pattern": TopicSource,
    "files": FileSource,
}
SINK_KINDS: Final[dict[str, Any]] = {
    "topic": TopicSink,
    "archive": ArchiveSink,
    "table": TableSink,
    "files": FileSink,
    "console": ConsoleSink,
}
SECTIONS: Final = ("sources", "steps", "sinks")
SHOWN_CHARACTERS_MAX: Final = 60
WORDS: Final[dict[Any, str]] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a mapping",
}

Made = TypeVar("Made")


def read_pipeline(text: str, variables: Mapping[str, str]) -> Pipeline:
    """What the text declares; raises `PipelineProblems`."""
    tree = Tree(text, variables)
    pipeline = _pipeline(tree)
    if pipeline is not None:
        check(pipeline, tree)
    if tree.problems or pipeline is None:
        raise PipelineProblems(tree.problems)
    return pipeline


def _pipeline(tree: Tree) -> Pipeline | None:
    root = tree.root
    if not isinstance(root, dict):
        tree.problem((), "a pipeline is a mapping with `name`, `sources` and `sinks`")
        return None
    sections = {name: _section(tree, root.get(name), name) for name in SECTIONS}
    fields = _fields(Pipeline, root, (), tree, apart=SECTIONS)
    for name in ("sources", "sinks"):
        if not root.get(name):
            tree.problem((name,), "at least one is needed")
    if fields is None:
        return None
    return Pipeline(**{**fields, **sections})


def _section(tree: Tree, value: Any, name: str) -> dict[str, Any]:
    """What could be read of it: more may be found wrong with the rest."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        tree.problem((name,), "must be a mapping, a name for each")
        return {}
    made = {each: _entry(tree, entry, (name, each)) for each, entry in value.items()}
    return {name: entry for name, entry in made.items() if entry is not None}


def _entry(tree: Tree, value: Any, path: Path) -> Any:
    match path[0]:
        case "sources":
            return _one_of(SOURCE_KINDS, value, path, tree)
        case "sinks":
            return _one_of(SINK_KINDS, value, path, tree)
        case _:
            as_struct = {"sql": value} if isinstance(value, str) else value
            return _struct(Step, as_struct, path, tree)


def _one_of(kinds: dict[str, Any], value: Any, path: Path, tree: Tree) -> Any:
    keys = ", ".join(f"`{each}`" for each in kinds)
    if not isinstance(value, dict):
        tree.problem(path, f"must be a mapping with one of {keys}")
        return None
    given = [each for each in kinds if each in value]
    if len(given) == 1:
        return _struct(kinds[given[0]], value, path, tree)
    said = " and ".join(f"`{each}`" for each in given) or "none of them"
    tree.problem(path, f"needs exactly one of {keys}; there is {said}")
    return None


# --- structs --------------------------------------------------------------------------------------


def _struct(kind: type[Made], value: Any, path: Path, tree: Tree) -> Made | None:
    if not isinstance(value, dict):
        tree.problem(path, f"must be a mapping, not {_quote(value)}")
        return None
    fields = _fields(kind, value, path, tree)
    return None if fields is None else kind(**fields)


def _fields(
    kind: Any, value: dict[str, Any], path: Path, tree: Tree, apart: Iterable[str] = ()
) -> dict[str, Any] | None:
    """By the names of the class; None when one that is needed cannot be had.

    Another that is wrong is left out, so that the rest can be looked at all the same.
    """
    known = {each.encode_name: each for each in msgspec.structs.fields(kind)}
    for name in value.keys() - known.keys():
        tree.problem((*path, name), f"is not known here{suggestion(name, known)}")
    fields: dict[str, Any] = {}
    whole = True
    for name, field in known.items():
        if name in apart:
            continue
        if value.get(name) is None:
            if field.required:
                tree.problem((*path, name), "is missing")
                whole = False
            continue
        converted = _convert(field.type, value[name], (*path, name), tree)
        if converted is not None:
            fields[field.name] = converted
        elif field.required:
            whole = False
    return fields if whole else None


def _convert(kind: Any, value: Any, path: Path, tree: Tree) -> Any:
    """None, and a problem, for what is of another type."""
    nested = _struct_in(kind)
    if nested is not None and isinstance(value, dict):
        return _struct(nested, value, path, tree)
    if isinstance(value, dict) and _struct_in(_entry_kind(kind)) is not None:
        made = {
            str(name): _convert(_entry_kind(kind), each, (*path, str(name)), tree)
            for name, each in value.items()
        }
        return {name: each for name, each in made.items() if each is not None}
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        _tell_type(kind, value, path, tree)
        return None


def _tell_type(kind: Any, value: Any, path: Path, tree: Tree) -> None:
    """Which of a list's or a mapping's entries it is, when it is one of those."""
    entries: list[tuple[Any, Any]] = []
    match get_origin(kind), value:
        case (origin, list()) if origin is list:
            entries = list(enumerate(value))
        case (origin, dict()) if origin is dict:
            entries = list(value.items())
    wanted = get_args(kind)[-1] if entries else kind
    wrong = [(name, each) for name, each in entries if not _fits(each, wanted)]
    for name, each in wrong:
        tree.problem(
            (*path, str(name)), f"must be {_describe_expected(wanted)}, not {_quote(each)}"
        )
    if not wrong:
        tree.problem(path, f"must be {_describe_expected(kind)}, not {_quote(value)}")


def _fits(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _entry_kind(kind: Any) -> Any:
    """What the entries of a mapping are."""
    return get_args(kind)[-1] if get_origin(kind) is dict else None


def _struct_in(kind: Any) -> Any:
    """The struct that a type is, or that a union of types has."""
    return next((each for each in _choices(kind) if hasattr(each, "__struct_fields__")), None)


def _choices(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


# --- words ----------------------------------------------------------------------------------------


def _describe_expected(kind: Any) -> str:
    """A type, as the writer of a file would say it."""
    words = [word for each in _choices(kind) if each is not NoneType for word in _words(each)]
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _words(kind: Any) -> list[str]:
    if get_origin(kind) is Literal:
        return [str(each) for each in get_args(kind)]
    if hasattr(kind, "__struct_fields__"):
        return ["{" + ", ".join(f"{each}: …" for each in kind.__struct_fields__) + "}"]
    return [WORDS.get(get_origin(kind) or kind, "something else")]


def _quote(value: Any) -> str:
    """What stands there, unless it is long."""
    if isinstance(value, str | int | float):
        return repr(value) if len(str(value)) <= SHOWN_CHARACTERS_MAX else "a long text"
    return WORDS.get(type(value), "nothing")
