"""Spark's streaming queries: what is used of them, and one that stands in for another."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Query(Protocol):
    """What is used here of Spark's `StreamingQuery`."""

    @property
    def name(self) -> str | None: ...
    @property
    def isActive(self) -> bool: ...  # noqa: N802
    @property
    def status(self) -> Mapping[str, Any]: ...
    @property
    def lastProgress(self) -> Mapping[str, Any] | None: ...  # noqa: N802
    @property
    def recentProgress(self) -> Sequence[Mapping[str, Any]]: ...  # noqa: N802
    def exception(self) -> BaseException | None: ...
    def awaitTermination(self) -> object: ...  # noqa: N802
    def stop(self) -> None: ...


class StandInQuery:
    """Behaves as `query` does; others change a part of that."""

    def __init__(self, query: Query) -> None:
        self.query = query

    def __getattr__(self, name: str) -> Any:
        return getattr(self.query, name)

    @property
    def name(self) -> str | None:
        return self.query.name

    @property
    def isActive(self) -> bool:  # noqa: N802
        return self.query.isActive

    @property
    def status(self) -> Mapping[str, Any]:
        return self.query.status

    @property
    def lastProgress(self) -> Mapping[str, Any] | None:  # noqa: N802
        return self.query.lastProgress

    @property
    def recentProgress(self) -> Sequence[Mapping[str, Any]]:  # noqa: N802
        return self.query.recentProgress

    def exception(self) -> BaseException | None:
        return self.query.exception()

    def awaitTermination(self) -> object:  # noqa: N802
        return self.query.awaitTermination()

    def stop(self) -> None:
        self.query.stop()
