"""Subjects of certificates to users, as Kafka's rules have it."""

import pytest

from goqueue.model.errors import InvalidSetting
from goqueue.model.principal_rules import map_principal, parse_principal_rule

SUBJECT = "CN=Alice,OU=Ops,O=Example"


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ([], "Alice"),
        (["DEFAULT"], SUBJECT),
        (["RULE:^CN=([^,]+),OU=Dev.*$/$1/", "RULE:^CN=([^,]+),OU=(Ops).*$/$2-$1/L"], "ops-alice"),
        (["RULE:^CN=([^,]+).*$/$1/U"], "ALICE"),
        (["RULE:^CN=([^,]+)$/$1/"], None),
        (["RULE:^CN=([^,]+)$/$1/", "DEFAULT"], SUBJECT),
    ],
)
def test_the_first_that_fits_counts(rules: list[str], name: str | None) -> None:
    assert map_principal(rules, SUBJECT) == name


def test_a_subject_without_a_common_name_is_nobody() -> None:
    assert map_principal([], "O=Example") is None


@pytest.mark.parametrize("text", ["", "RULE:", "RULE:(/$1/", "RULE:^CN=.*$/$1/", "RULE:a/b/X"])
def test_bad_rules(text: str) -> None:
    with pytest.raises(InvalidSetting):
        parse_principal_rule(text)
