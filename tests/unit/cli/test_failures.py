"""Errors as an exit code and a text."""

import pytest

from goqueue.cli.failures import ExitCode, Failure, UsageFailure, explain
from goqueue.client import errors as client
from goqueue.model.errors import TopicNotFound


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (client.NotFound("gone", code="c", status=404), ExitCode.NOT_FOUND),
        (client.Conflict("there", code="c", status=409), ExitCode.CONFLICT),
        (client.BadRequest("no", code="c", status=400), ExitCode.USAGE),
        (client.Unauthorized("who?", code="c", status=401), ExitCode.DENIED),
        (client.Forbidden("no", code="c", status=403), ExitCode.DENIED),
        (client.BadLogin("half a login"), ExitCode.USAGE),
        (client.ServerUnreachable("nobody"), ExitCode.UNREACHABLE),
        (client.Overloaded("later", code="c", status=503), ExitCode.FAILED),
        (TopicNotFound("of the broker itself"), ExitCode.FAILED),
        (Failure("own", ExitCode.INTERRUPTED), ExitCode.INTERRUPTED),
        (UsageFailure("own"), ExitCode.USAGE),
        (ModuleNotFoundError("no", name="pyspark.sql"), ExitCode.FAILED),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Exception) else "",
)
def test_an_error_has_its_exit_code(error: Exception, code: ExitCode):
    found = explain(error)
    assert found is not None
    assert found.code == code
    inside = explain(ExceptionGroup("tasks", [error]))
    assert inside is not None
    assert inside.code == code


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a bug"),
        ModuleNotFoundError("no", name="goqueue.missing"),
        ExceptionGroup("two", [Failure("one"), Failure("two")]),
    ],
)
def test_a_bug_is_shown_as_one(error: Exception):
    assert explain(error) is None


def test_the_way_out_is_told():
    unreachable = explain(client.ServerUnreachable("nobody"))
    unknown = explain(client.Unauthorized("who?", code="c", status=401))
    assert unknown is not None
    assert "goqueue login" in unknown.text
    missing = explain(ModuleNotFoundError("no", name="pyarrow"))
    assert unreachable is not None
    assert missing is not None
    assert "goqueue server" in unreachable.text
    assert "goqueue[spark]" in missing.text
