"""A request as data: what to send, what comes back, whether sending it twice is the same as once.

`Client` and `AsyncClient` carry calls out.  `verb` and `async_verb` make their methods of the
functions in this package.
"""

import functools
import inspect
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar
from urllib.parse import quote

import msgspec

T = TypeVar("T")
U = TypeVar("U")
P = ParamSpec("P")


class Call(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    method: str
    path: str
    result: type[Any]
    """What the body of the answer is decoded as."""
    read: Callable[[Any], T] | None = None
    """Makes the result of that, where it is not the body itself."""
    query: dict[str, str] = {}
    body: bytes | None = None
    is_repeatable: bool = False
    also_answers: tuple[int, ...] = ()
    """Statuses beyond 2xx that come with a result and not with an error."""
    wait_seconds: float = 0.0
    """How long the server may take on purpose, beyond what a request may take anyway."""

    @property
    def is_long_poll(self) -> bool:
        """Whether it holds its connection on purpose."""
        return self.wait_seconds > 0

    def then(self, read: Callable[[T], U]) -> "Call[U]":
        """The same call with what `read` makes of its result."""
        assert self.read is None, "one is enough"
        call: Any = self
        return msgspec.structs.replace(call, read=read)


class Anything(msgspec.Struct, frozen=True):
    """An answer nobody looks into."""


def get(path: str, result: type[T], query: Mapping[str, Any] | None = None, **more: Any) -> Call[T]:
    """What is None in `query` is left out."""
    return Call(
        method="GET",
        path=path,
        result=result,
        query=texts(query or {}),
        **{"is_repeatable": True, **more},
    )


def post(path: str, result: type[T], body: Any = None, **more: Any) -> Call[T]:
    return change("POST", path, result, body, **more)


def change(method: str, path: str, result: type[T], body: Any = None, **more: Any) -> Call[T]:
    """What is None in `body` is left out."""
    if isinstance(body, dict):
        body = {name: each for name, each in body.items() if each is not None}
    content = None if body is None else msgspec.json.encode(body)
    return Call(method=method, path=path, result=result, body=content, **more)


def nothing(_: object) -> None:
    """For `then`, where the answer says no more than that it is done."""


def path_of(*parts: str | int) -> str:
    """Names may be any text: the server refuses a bad one in its own words."""
    return "".join(f"/{quote(str(part), safe='')}" for part in parts)


def texts(query: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in query.items() if value is not None}


# --- methods --------------------------------------------------------------------------------------


class Sender(Protocol):
    def send(self, call: Call[T]) -> T: ...


class AsyncSender(Protocol):
    async def send(self, call: Call[T]) -> T: ...


def verb(make: Callable[P, Call[T]]) -> Callable[Concatenate[Sender, P], T]:
    """A method that sends the call which `make` gives."""

    def send(self: Sender, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.send(make(*args, **kwargs))

    return _like(make, send)


def async_verb(
    make: Callable[P, Call[T]],
) -> Callable[Concatenate[AsyncSender, P], Coroutine[Any, Any, T]]:
    async def send(self: AsyncSender, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.send(make(*args, **kwargs))

    return _like(make, send)


def _like(make: Callable[..., Any], method: T) -> T:
    """With the name, the text and the parameters of `make`."""
    target: Any = functools.update_wrapper(method, make)  # type: ignore[arg-type]
    of_make = inspect.signature(make)
    myself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    target.__signature__ = of_make.replace(parameters=[myself, *of_make.parameters.values()])
    return method
