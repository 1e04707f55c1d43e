"""The same job on a real cluster: a master and two workers, our code sent along by --py-files."""

import json
import zipfile
from pathlib import Path

import pytest

import goqueue
import pyspark_goqueue
from tests.spark.cluster import running_cluster

JOB = Path(__file__).with_name("cluster_job.py")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def py_files(tmp_path):
    """Our two packages in a zip, as a user makes one."""
    path = tmp_path / "goqueue.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for package in (goqueue, pyspark_goqueue):
            root = Path(str(package.__file__)).parent
            for file in sorted(root.rglob("*.py")):
                archive.write(file, file.relative_to(root.parent))
    return path


def test_a_job_runs_on_two_workers_with_the_code_sent_along(
    broker, fill, make_topic, values_in, tmp_path, py_files, eventually
):
    source, target = make_topic(2), make_topic(2)
    for partition in range(2):
        fill(source, partition, [f"{partition}-{number}" for number in range(1000)])
    with running_cluster(tmp_path, workers=2) as cluster:
        eventually(lambda: cluster.is_ready, within_s=120)
        done = cluster.submit(
            JOB,
            *(broker, source, target, str(tmp_path / "checkpoint")),
            py_files=py_files,
            timeout_s=400,
        )
    assert done.returncode == 0, said(done)
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("RESULT "))
    result = json.loads(line.removeprefix("RESULT "))
    assert result["rows"] == 2000
    workers = {folder.split("/work-")[1][0] for folder in result["folders"]}
    assert workers == {"0", "1"}, "both workers read"
    assert all("goqueue.zip" in path for path in result["code"]), "with the code sent along"
    assert result["batches"] == [600, 600, 600, 200]
    expected = [f"{partition}-{number}" for partition in range(2) for number in range(1000)]
    assert sorted(values_in(target)) == sorted(expected)


def said(done):
    """What went wrong, without the Java lines around it."""
    lines = (done.stdout + done.stderr).splitlines()
    return "\n".join(line for line in lines if "\tat " not in line and " INFO " not in line)[-4000:]
