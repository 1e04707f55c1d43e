"""Runs a command in this process."""

from typing import Any

import msgspec
from typer.testing import CliRunner, Result

from goqueue.cli.main import app


def run(*arguments: object, code: int | None = None, **options: Any) -> Result:
    """The command's output; its exit code is checked when `code` is given."""
    done = CliRunner().invoke(app, [str(each) for each in arguments], **options)
    assert code is None or done.exit_code == code, done.output
    return done


def facts(*arguments: object, **options: Any) -> Any:
    """What a command that succeeds writes for programs."""
    return msgspec.json.decode(run(*arguments, "-o", "json", code=0, **options).stdout)
