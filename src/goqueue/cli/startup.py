"""Tricks by which short commands, and the server, start quickly; and one for their help.

Each reaches into a library, and has a test in `tests/unit/cli/test_startup.py` that notices when a
new version of that library has changed there.

* Libraries load others that this command has no use for: these are taken for not installed.
* Typer checks arguments with pydantic, whose import takes longer than all the rest of a short
  command.  The few types that commands here use are converted by hand instead.
* A start makes objects that stay, and the garbage collector looks at all of them again and again.
"""

import gc
import sys
from pathlib import Path
from typing import Any, Final, get_args, get_origin

import typer

PLAIN_TYPES: Final = {str: "text", int: "whole number", float: "number", bool: "bool", Path: "path"}


def skip_httpx_command() -> None:
    """httpx brings a command of its own: a third of what its import takes."""
    _pretend_missing("httpx._main")


def skip_hypothesis() -> None:
    """kio teaches it its types, where it is installed: a quarter of a second."""
    _pretend_missing("hypothesis")


def skip_pydantic() -> None:
    """Litestar brings plugins for it, where it is installed: a tenth of the server's start."""
    _pretend_missing("pydantic")


def pause_gc() -> None:
    """Until `resume_gc`: a start makes little garbage."""
    gc.disable()


def resume_gc() -> None:
    """Collections pass over what the start has made: nearly all of it stays."""
    gc.freeze()
    gc.enable()


def _pretend_missing(name: str) -> None:
    """Let `import name` fail from now on; what is loaded already stays."""
    sys.modules.setdefault(name, None)  # type: ignore[arg-type] # None: "not installed"


def use_plain_types(command: Any) -> None:
    """Convert the command's parameters by hand where their types are plain."""
    parameters = command.get_params
    command.get_params = lambda ctx: [_plain(each) for each in parameters(ctx)]


def _plain(parameter: Any) -> Any:
    descriptor = getattr(parameter, "type_descriptor", None)
    kind = getattr(descriptor, "annotation", None)
    kind = get_args(kind)[0] if get_origin(kind) is list else kind
    if descriptor is not None and kind in PLAIN_TYPES:
        info = descriptor.parameter_info
        parameter._runtime_param = PlainType(kind, info.min, info.max)
    if getattr(parameter, "is_flag", False):
        parameter.display_type_rich = _show_no_type
    return parameter


def _show_no_type(ctx: Any) -> None:
    """In the help of a flag: `--wide <bool>` would read as if it took a value."""


class PlainType:
    """Stands in for Typer's `RuntimeParam`."""

    def __init__(self, kind: Any, low: float | None, high: float | None) -> None:
        self._kind = kind
        self._low = low
        self._high = high

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        takes_many = param.multiple or param.nargs == -1
        if value is None:
            return () if takes_many else None
        try:
            return [self._one(each) for each in value] if takes_many else self._one(value)
        except ValueError as error:
            raise typer.BadParameter(str(error), ctx=ctx, param=param) from error

    def _one(self, value: Any) -> Any:
        try:
            converted = self._kind(value)
        except ValueError:
            raise ValueError(f"{value!r} is not a {PLAIN_TYPES[self._kind]}") from None
        if self._low is not None and converted < self._low:
            raise ValueError(f"{value} is less than {self._low}")
        if self._high is not None and converted > self._high:
            raise ValueError(f"{value} is more than {self._high}")
        return converted
