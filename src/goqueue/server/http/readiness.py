"""Whether the server may be sent traffic, as those who compose it say."""

from collections.abc import Callable

Check = Callable[[], str | None]  # what is wrong, or None


class Health:
    """Set by who composes the server: ready once all listeners serve, not ready while stopping."""

    def __init__(self) -> None:
        self.ready = False
        self.message = "starting"
        self._checks: dict[str, Check] = {}

    def set_ready(self) -> None:
        self.ready, self.message = True, "serving"

    def set_stopping(self) -> None:
        self.ready, self.message = False, "stopping"

    def add_check(self, name: str, check: Check) -> None:
        """Something more that must be in order to be ready."""
        self._checks[name] = check

    def problems(self) -> dict[str, str | None]:
        return {name: check() for name, check in self._checks.items()}
