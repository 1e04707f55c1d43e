"""Log lines: the server must not mind where they go."""

import errno
import io
import sys

import pytest
import structlog

from goqueue.cli.logs import set_up


class FullDisk(io.StringIO):
    def write(self, _text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_log_that_cannot_be_written_does_not_end_the_server(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stderr", FullDisk())
    set_up("json", "info")
    structlog.get_logger("test").info("told to nobody")


def test_log_lines_are_json_where_nobody_looks(monkeypatch: pytest.MonkeyPatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    set_up("auto", "warning")
    structlog.get_logger("test").info("left out")
    structlog.get_logger("test").warning("disk is full", free_bytes=3)
    assert '"event": "disk is full"' in stream.getvalue()
    assert "left out" not in stream.getvalue()
