"""How the subject of a certificate becomes a user's name: Kafka's `ssl.principal.mapping.rules`.

RULE:^CN=([^,]+),OU=ops.*$/$1/L     the first group, in lower case
DEFAULT                             the subject as it is
"""

import re
from collections.abc import Callable
from typing import Final

from goqueue.model.errors import InvalidSetting

Rule = Callable[[str], str | None]  # the name, if the subject fits

_RULE: Final = re.compile(r"RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)")
_COMMON_NAME: Final = re.compile(r"(?:^|,)CN=((?:\\.|[^,\\])+)")


def parse_principal_rule(text: str) -> Rule:
    """Raises `InvalidSetting`."""
    if text == "DEFAULT":
        return lambda subject: subject
    found = _RULE.fullmatch(text)
    if found is None:
        raise InvalidSetting(f"{text!r} is not DEFAULT or RULE:PATTERN/REPLACEMENT/ with L or U")
    pattern, replacement, case = found.groups()
    template = re.sub(r"\$(\d)", r"\\g<\1>", replacement.replace("\\/", "/"))
    try:
        compiled = re.compile(pattern.replace("\\/", "/"))
        compiled.sub(template, "")
    except (re.error, IndexError) as error:
        raise InvalidSetting(f"{text!r}: {error}") from error

    def apply(subject: str) -> str | None:
        match = compiled.fullmatch(subject)
        if match is None:
            return None
        name = match.expand(template)
        return name.lower() if case == "L" else name.upper() if case == "U" else name

    return apply


def map_principal(rules: list[str], subject: str) -> str | None:
    """The user's name; None when no rule fits."""
    if not rules:
        found = _COMMON_NAME.search(subject)
        return re.sub(r"\\(.)", r"\1", found[1]) if found else None
    names = (parse_principal_rule(rule)(subject) for rule in rules)
    return next((name for name in names if name), None)
