"""One process a data directory, and no lock outlives its process."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from goqueue.model.errors import DataDirectoryInUse
from goqueue.runtime.lock import DirectoryLock

HOLDER = """
import sys, signal
from goqueue.runtime.lock import DirectoryLock
lock = DirectoryLock(sys.argv[1])
print("locked", flush=True)
signal.pause()
"""


def test_a_second_owner_is_refused_and_told_who_the_first_is(tmp_path: Path):
    lock = DirectoryLock(str(tmp_path))
    with pytest.raises(DataDirectoryInUse, match=f"id {os.getpid()}"):
        DirectoryLock(str(tmp_path))
    lock.release()
    DirectoryLock(str(tmp_path)).release()


def test_a_lock_file_alone_locks_nothing(tmp_path: Path):
    (tmp_path / "lock").write_text("1\n")  # of a process that lives, but is another one
    DirectoryLock(str(tmp_path)).release()


def test_a_killed_process_does_not_leave_the_directory_locked(tmp_path: Path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    with holder:
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(DataDirectoryInUse, match=f"id {holder.pid}"):
            DirectoryLock(str(tmp_path))
        holder.send_signal(signal.SIGKILL)
    DirectoryLock(str(tmp_path)).release()
    assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
