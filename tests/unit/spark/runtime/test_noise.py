"""Where the words of other processes go."""

import subprocess
import sys
from pathlib import Path

import pytest

from goqueue.spark.runtime.causes import JobFailed
from goqueue.spark.runtime.noise import kept_on_failure, quiet

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
    with kept_on_failure() as log:
        assert log.exists()
    assert not log.exists()
    with pytest.raises(ValueError), kept_on_failure() as log:
        raise ValueError
    assert not log.exists()
    with pytest.raises(JobFailed), kept_on_failure() as log:
        raise JobFailed
    assert log.exists()
    log.unlink()
