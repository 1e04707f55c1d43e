"""`NAME=VALUE` arguments."""

from collections.abc import Iterable

from goqueue.cli.failures import UsageFailure


def pairs(arguments: Iterable[str] | None, flag: str) -> dict[str, str]:
    found = {}
    for each in arguments or ():
        name, sign, value = each.partition("=")
        if not sign or not name:
            raise UsageFailure(f"{flag} {each}: write NAME=VALUE")
        found[name] = value
    return found
