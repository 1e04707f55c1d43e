"""`goqueue doctor`: exit codes, tables, JSON; of a stopped and of a running server."""

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from goqueue.cli.main import app
from goqueue.embedding import embedded


def run(*arguments: str, code: int = 0) -> Result:
    done = CliRunner().invoke(app, ["doctor", *arguments])
    assert done.exit_code == code, done.output
    return done


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("doctor") / "data"
    with embedded(directory, topics={"partitions": 1}) as broker:
        broker.publish("orders", "one", "two")
    return directory


def test_a_stopped_server_in_good_order(filled: Path):
    found = msgspec.json.decode(run("--data-dir", str(filled)).stdout)
    assert found["status"] in ("ok", "warning")  # of file descriptors, on some machines
    assert found["topics"] == 1
    assert found["records"] >= 2


def test_damage_is_told_mended_and_then_gone(filled: Path):
    (log,) = (filled / "logs" / "__metadata" / "0").glob("*.log")
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)
    told = run("--data-dir", str(filled), "-o", "table", code=1)
    assert "__metadata" in told.stdout
    assert "--repair" in told.stdout
    mended = msgspec.json.decode(run("--data-dir", str(filled), "--repair").stdout)
    assert mended["status"] != "problem"
    assert Path(mended["damaged_files"], "logs", "__metadata", "0", log.name).exists()
    run("--data-dir", str(filled))
    with embedded(filled) as broker:
        assert [message.value for message in broker.read("orders")] == [b"one", b"two"]


def test_a_running_server_is_asked_and_its_directory_refused(tmp_path: Path):
    with embedded(tmp_path) as broker:
        found = msgspec.json.decode(run("--server", broker.http).stdout)
        assert {each["subject"] for each in found["findings"]} >= {"disk", "internal_logs"}
        assert found["status"] == "ok"
        assert "another GoQueue process" in run("--data-dir", str(tmp_path), code=1).stderr
        partition = broker.broker.partitions.find_open("__ledgers", 0)
        assert partition is not None
        partition.log.fail("Input/output error")
        assert "__ledgers is read-only" in run("--server", broker.http, code=1).stdout


def test_a_directory_that_holds_no_data_is_refused(tmp_path: Path):
    assert "no data directory" in run("--data-dir", str(tmp_path), code=1).stderr


def test_repair_needs_a_stopped_server():
    assert "--data-dir" in run("--repair", code=1).stderr
