"""Named servers: the file that they are kept in."""

import stat
from pathlib import Path

from goqueue.cli.session import Session
from tests.unit.cli.invocation import run


def add(name: str, server: str, *more: str) -> None:
    run("config", "set-context", name, "--server", server, *more, code=0)


def test_the_first_context_is_used_at_once_and_only_its_owner_reads_the_file(tmp_path: Path):
    add("staging", "http://staging:1", "--api-key", "secret", "--timeout", "5")
    assert stat.S_IMODE((tmp_path / "config.yaml").stat().st_mode) == 0o600
    target = Session().target()
    assert (target.server, target.api_key, target.timeout) == ("http://staging:1", "secret", 5.0)
