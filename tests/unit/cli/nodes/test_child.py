"""A node whose supervisor is gone stops in good order."""

import os
import signal

import pytest

from goqueue.cli.nodes.child import stop_after


def test_the_end_of_its_input_asks_the_process_to_stop(monkeypatch: pytest.MonkeyPatch):
    sent: list[tuple[int, signal.Signals]] = []
    monkeypatch.setattr(os, "kill", lambda process, how: sent.append((process, how)))
    reading, writing = os.pipe()
    os.write(writing, b"a line\n")
    os.close(writing)
    stop_after(reading)
    os.close(reading)
    assert sent == [(os.getpid(), signal.SIGINT)]
