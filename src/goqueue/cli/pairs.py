"""`NAME=VALUE` arguments."""

from collections.abc import Iterable

from goqueue.cli.durations import WHOLE, duration_ms
from goqueue.cli.failures import UsageFailure


def pairs(arguments: Iterable[str] | None, flag: str) -> dict[str, str]:
    found = {}
    for each in arguments or ():
        name, sign, value = each.partition("=")
        if not sign or not name:
            raise UsageFailure(f"{flag} {each}: write NAME=VALUE")
        found[name] = value
    return found


def setting_texts(arguments: Iterable[str] | None) -> dict[str, str]:
    """Settings of a topic.  Those in milliseconds may be written as `retention.ms=7d`."""
    return {name: _setting(name, value) for name, value in pairs(arguments, "--set").items()}


def _setting(name: str, value: str) -> str:
    if name.endswith(".ms") and WHOLE.fullmatch(value):
        return str(duration_ms(value, name))
    return value
