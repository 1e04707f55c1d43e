"""Commands made from functions and structs."""

from typing import Annotated, Any, Literal

import msgspec
import pytest
import typer
from typer.testing import CliRunner, Result

from goqueue.cli.command import command
from goqueue.cli.session import Session
from goqueue.model.options import DurationMs, FixedTimeMs, Pairs, TimeMs, argument, option


class Which(msgspec.Struct, frozen=True):
    from_ms: Annotated[TimeMs | None, option("Start time.", "--since")] = None
    partitions: Annotated[tuple[int, ...], option("Partition.", "--partition", min=0)] = ()
    form: Annotated[Literal["raw", "json"], option("Format.", "-f")] = "raw"
    settings: Annotated[Pairs, option("Setting.", "--set")] = {}
    keep: Annotated[bool, option("Keep.")] = True
    not_an_option: int = 7


def outcome(*words: str) -> tuple[Result, dict[str, Any]]:
    app = typer.Typer()
    given: dict[str, Any] = {}

    @command(app)
    def read(
        session: Session,
        topics: Annotated[list[str], argument("Topics.", metavar="TOPIC...")],
        which: Which,
        at: Annotated[FixedTimeMs | None, option("When.")] = None,
        wait: Annotated[DurationMs, option("How long.")] = 250,
        limit: Annotated[int | None, option("How many.", "-n", min=1, max=9)] = None,
    ) -> None:
        """Read."""
        given.update(topics=topics, which=which, at=at, wait=wait, limit=limit)

    return CliRunner().invoke(app, list(words)), given


def test_what_is_not_given_has_the_default_of_the_struct_or_function():
    _, given = outcome("a", "b")
    assert given == {"topics": ["a", "b"], "which": Which(), "at": None, "wait": 250, "limit": None}


def test_times_durations_pairs_and_many_values_are_parsed():
    words = "a --since 1970-01-01T00:00:01Z --wait 2s --set x=1 --set y=z=2 -n 3 --no-keep"
    _, given = outcome(*words.split(), "--partition", "2", "--partition", "2", "-f", "json")
    assert given["which"] == Which(1000, (2,), "json", {"x": "1", "y": "z=2"}, keep=False)
    assert (given["wait"], given["limit"]) == (2000, 3)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("a --form xml", "--form xml: choose one of raw, json"),
        ("a --wait soon", "--wait: 'soon' is not a duration"),
        ("a --since then", "'then' is not a time"),
        ("a --at -1h", "--at -1h: this is another time whenever the command is started again"),
        ("a --set x", "--set x: write NAME=VALUE"),
    ],
)
def test_what_cannot_be_parsed_is_a_usage_failure_that_names_the_flag(words: str, text: str):
    result, given = outcome(*words.split())
    assert not given
    assert text in str(result.exception)


def test_help_says_what_the_struct_says():
    result, _ = outcome("--help")
    for text in ("--since", "TIME", "Start time.", "--no-keep", "1<=x<=9", "default: 250"):
        assert text in result.output
    assert "not-an-option" not in result.output
