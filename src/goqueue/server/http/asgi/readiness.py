"""Whether the server is ready for traffic, as its parts report."""

from collections.abc import Callable

import msgspec

Check = Callable[[], str | None]  # what is wrong, or None


class CheckResult(msgspec.Struct, frozen=True):
    problem: str | None
    is_critical: bool

    @property
    def text(self) -> str:
        if self.problem is None:
            return "pass"
        return self.problem if self.is_critical else f"warning: {self.problem}"


class Health:
    """Set by who composes the server: ready once all listeners serve, not ready while stopping."""

    def __init__(self) -> None:
        self.ready = False
        self.message = "starting"
        self._checks: dict[str, tuple[Check, bool]] = {}

    def set_ready(self) -> None:
        self.ready, self.message = True, "serving"

    def set_draining(self) -> None:
        self.ready, self.message = False, "draining"

    def set_stopping(self) -> None:
        self.ready, self.message = False, "stopping"

    def add_check(self, name: str, check: Check, *, is_critical: bool = True) -> None:
        """Something more that must be in order to be ready; or, when not critical, that is told."""
        self._checks[name] = (check, is_critical)

    def results(self) -> dict[str, CheckResult]:
        found = {"listeners": CheckResult(None if self.ready else self.message, True)}
        for name, (check, is_critical) in self._checks.items():
            found[name] = CheckResult(check(), is_critical)
        return found
