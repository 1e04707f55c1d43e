"""Where the words of other processes go."""

import subprocess
import sys
from pathlib import Path

import pytest

from goqueue.spark.runtime.causes import JobFailed
from goqueue.spark.runtime.noise import Sieve, keep_on_failure, quiet, sift_output

SHOUT = [sys.executable, "-c", "import sys; sys.stderr.write('noise')"]


def test_processes_started_inside_write_to_the_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    log = tmp_path / "log"
    with quiet(log):
        subprocess.run(SHOUT, check=True)
    subprocess.run(SHOUT, check=True)
    assert log.read_text() == "noise"
    assert capfd.readouterr().err == "noise"


def test_the_file_stays_only_for_a_job_that_failed():
    with keep_on_failure() as log:
        assert log.exists()
    assert not log.exists()
    with pytest.raises(ValueError), keep_on_failure() as log:
        raise ValueError
    assert not log.exists()
    with pytest.raises(JobFailed), keep_on_failure() as log:
        raise JobFailed
    assert log.exists()
    log.unlink()


HUNG_UP = b"""\
Traceback (most recent call last):
  File "/venv/pyspark/daemon.py", line 233, in manager
    code = worker(sock, authenticated)
BrokenPipeError: [Errno 32] Broken pipe
"""
FLUSH_FAILED = b"PySpark daemon failed to flush the output to the worker process:\n" + HUNG_UP
ANOTHER = b"\nDuring handling of the above exception, another exception occurred:\n\n"
OURS = b"""\
Traceback (most recent call last):
  File "/jobs/billing.py", line 3, in bill
    1 / 0
ZeroDivisionError: division by zero
"""
INCUBATOR = b"WARNING: Using incubator modules: jdk.incubator.vector\n"


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_only_what_never_means_anything_is_sifted_out(size: int):
    told = INCUBATOR + b"one\n" + HUNG_UP + ANOTHER + HUNG_UP + b"two\n" + FLUSH_FAILED + OURS
    told += b"WARNING: disk full\n" + OURS.replace(b"ZeroDivisionError", b"BrokenPipeError")
    told += b"no end of line"
    sieve = Sieve()
    heard = b"".join(sieve.feed(told[at : at + size]) for at in range(0, len(told), size))
    expected = b"one\ntwo\n" + OURS + b"WARNING: disk full\n"
    expected += OURS.replace(b"ZeroDivisionError", b"BrokenPipeError") + b"no end of line"
    assert heard + sieve.end() == expected


def test_processes_started_inside_are_heard_through_the_sieve(
    capfd: pytest.CaptureFixture[str], eventually
):
    shout = "import sys; sys.stderr.write('WARNING: Using incubator modules: x\\nheard\\n')"
    with sift_output():
        subprocess.run([sys.executable, "-c", shout], check=True)
    heard = ""

    def is_heard() -> bool:
        nonlocal heard
        heard += capfd.readouterr().err
        return bool(heard)

    eventually(is_heard)
    assert heard == "heard\n"
