"""Commands made from functions.

    @command(app, "peek")
    def peek(client: "Client", topic: TopicName, which: SomeStruct,
             count: Annotated[int, option("Number of messages.", "-n", min=1)] = 10) -> None:

`session` and `client` are handed in.  Each other parameter has an `option` or an `argument`
(`goqueue.model.options`), or is a struct: then its fields that have one are options, and the
function gets the struct.  Times, durations and `NAME=VALUE` are parsed before it is called.
"""

import contextlib
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import GenericAlias, NoneType
from typing import Annotated, Any, Final, Literal, TypeVar, get_args, get_origin

import msgspec
import typer

from goqueue.cli import output
from goqueue.cli.failures import Failure, UsageFailure
from goqueue.cli.moments import duration_ms, fixed_milliseconds, milliseconds
from goqueue.cli.pairs import pairs
from goqueue.cli.session import Session
from goqueue.model.options import Notation, Option

Function = TypeVar("Function", bound=Callable[..., None])
Parse = Callable[[Any, str], Any]  # a value as typed, and its flag for error messages

NOTATIONS: Final[dict[Notation, Parse]] = {
    Notation.TIME: lambda text, _: milliseconds(text),
    Notation.FIXED_TIME: fixed_milliseconds,
    Notation.DURATION: duration_ms,
    Notation.PAIRS: pairs,
}
HANDED_IN: Final = ("session", "client")
CONTEXT: Final = inspect.Parameter(
    "context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context
)


def command(
    app: typer.Typer, name: str | None = None, **settings: Any
) -> Callable[[Function], Function]:
    def add(function: Function) -> Function:
        app.command(name, **settings)(_for_typer(function))
        return function

    return add


def _for_typer(function: Callable[..., None]) -> Callable[..., None]:
    takes = inspect.signature(function).parameters
    structs = {n: each.annotation for n, each in takes.items() if _is_struct(each.annotation)}
    values = {
        name: _fields(structs[name]) if name in structs else [_value(each)]
        for name, each in takes.items()
        if name not in HANDED_IN
    }

    @functools.wraps(function)
    def run(context: typer.Context, **given: Any) -> None:
        session = context.ensure_object(Session)
        output.choose(session.output_format(), is_wide=session.wide)
        arguments: dict[str, Any] = {"session": session} if "session" in takes else {}
        for name, some in values.items():
            found = _parse(some, given)
            arguments.update({name: structs[name](**found)} if name in structs else found)
        with contextlib.ExitStack() as stack:
            if "client" in takes:
                arguments["client"] = stack.enter_context(session.client())
            function(**arguments)

    parameters = [CONTEXT, *(each.parameter() for some in values.values() for each in some)]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _is_struct(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, msgspec.Struct)


def _parse(values: "list[_Value]", given: Mapping[str, Any]) -> dict[str, Any]:
    """What was not given is left out: the function or the struct has a default."""
    return {
        each.name: each.kind.parse(given[each.name], each.flag)
        for each in values
        if given[each.name] not in (None, (), [])
    }


class _Value(msgspec.Struct, frozen=True):
    """One option or argument."""

    name: str
    kind: "_Kind"
    option: Option
    default: Any
    """`inspect.Parameter.empty` if there is none."""

    @property
    def flag(self) -> str:
        return self.flags[0].partition("/")[0]

    @property
    def flags(self) -> tuple[str, ...]:
        given = self.option.flags
        if any(each.startswith("--") for each in given):
            return given
        word = self.name.replace("_", "-")
        is_on = self.kind.type is bool and self.default is True
        return (f"--{word}/--no-{word}" if is_on else f"--{word}", *given)

    def parameter(self) -> inspect.Parameter:
        default = None if self.default in ((), {}) else self.default
        kind = self.kind.type | None if default is None else self.kind.type
        return inspect.Parameter(
            self.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=str(default) if isinstance(default, int) and kind is str else default,
            annotation=Annotated[kind, self._info()],
        )

    def _info(self) -> Any:
        told = self.option
        common: Any = {"help": told.help, "metavar": told.metavar or self.kind.metavar}
        if told.is_argument:
            return typer.Argument(autocompletion=told.complete, **common)
        return typer.Option(*self.flags, min=told.min, max=told.max, **common)


def _fields(struct: type[msgspec.Struct]) -> list[_Value]:
    empty = inspect.Parameter.empty
    return [
        _Value(each.name, _kind_of(each.type), option, empty if each.required else _default(each))
        for each in msgspec.structs.fields(struct)
        if (option := _option_of(each.type)) is not None
    ]


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return None if field.default is msgspec.NODEFAULT else field.default


def _value(parameter: inspect.Parameter) -> _Value:
    option = _option_of(parameter.annotation)
    assert option is not None, f"{parameter.name} has neither an option nor an argument"
    return _Value(parameter.name, _kind_of(parameter.annotation), option, parameter.default)


class _Kind(msgspec.Struct, frozen=True):
    """What Typer makes of the words, and what becomes of that."""

    type: Any
    parse: Parse
    metavar: str | None = None


def _kind_of(annotation: Any) -> _Kind:
    kind, *notes = get_args(annotation)
    if NoneType in get_args(kind):
        (kind,) = (each for each in get_args(kind) if each is not NoneType)
    if get_origin(kind) is Annotated:
        kind, *notes = get_args(kind)
    notation = next((each for each in notes if isinstance(each, Notation)), None)
    if notation is not None:
        is_pairs = notation is Notation.PAIRS
        metavar = "NAME=VALUE" if is_pairs else "TIME"
        return _Kind(list[str] if is_pairs else str, NOTATIONS[notation], metavar)
    if get_origin(kind) is Literal:
        return _Kind(str, functools.partial(_one_of, get_args(kind)))
    if get_origin(kind) is tuple:
        of = get_args(kind)[0]
        return _Kind(
            GenericAlias(list, of), lambda some, _: tuple(dict.fromkeys(some)), _metavar(of)
        )
    return _Kind(kind, lambda value, _: value, _metavar(kind))


def _metavar(kind: Any) -> str | None:
    return "N" if kind in (int, float) else None


def _one_of(known: Sequence[str], given: str, flag: str) -> str:
    if given not in known:
        raise UsageFailure(f"{flag} {given}: choose one of {', '.join(known)}")
    return given


def _option_of(annotation: Any) -> Option | None:
    return next((each for each in get_args(annotation) if isinstance(each, Option)), None)


def completion(names: "Callable[[Any], list[str]]") -> Callable[[typer.Context], list[str]]:
    """Names for the shell's completion, asked of a client; none when no server answers."""

    def complete(context: typer.Context) -> list[str]:
        from goqueue.client.errors import ClientError

        try:
            with context.ensure_object(Session).client() as client:
                return names(client)
        except (ClientError, Failure):
            return []

    return complete
