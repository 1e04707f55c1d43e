"""Tables in Azure's store, against Azurite: `npm install azurite` puts it where this looks.

mkdir -p ~/.cache/goqueue-azurite && cd ~/.cache/goqueue-azurite && npm install azurite
"""

import shutil
import socket
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs goqueue[spark]")

import pyarrow as pa
import pyarrow.dataset

from goqueue.spark.lake import MarksMoved, open_table
from goqueue.spark.lake.azure import azure_place
from goqueue.spark.lake.roots import StoreError
from goqueue.spark.lake.store import Store
from goqueue.spark.lake.writing import FileSet

pytestmark = pytest.mark.slow

INSTALLED = Path.home() / ".cache/goqueue-azurite/node_modules/.bin/azurite-blob"
ACCOUNT = "devstoreaccount1"
CONTAINER = "lake"
START_S = 120.0
DAY_US = 86_400_000_000
SCHEMA = pa.schema([("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC"))])


@pytest.fixture
def azurite(tmp_path: Path, eventually: Callable[..., None]) -> Iterator[str]:
    """Its URL."""
    program = shutil.which("azurite-blob") or (str(INSTALLED) if INSTALLED.exists() else None)
    if program is None:
        pytest.skip("needs Azurite: npm install azurite")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    place = ["--location", str(tmp_path)]
    where = ["--blobHost", "127.0.0.1", "--blobPort", str(port)]
    command = [program, "--silent", "--skipApiVersionCheck", *place, *where]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: answers(port), within_s=START_S)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.fixture
def home(azurite: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
    monkeypatch.setenv("AZURITE_BLOB_STORAGE_URL", azurite)
    root = f"abfss://{CONTAINER}@{ACCOUNT}.dfs.core.windows.net/{uuid.uuid4().hex}"
    found = azure_place(root)
    assert found is not None
    found[0].create_dir(CONTAINER)
    return root


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_rows_are_committed_once_and_read_back(home: str, format: str):
    table = open_table(format, f"{home}/orders", date_column="date", time_column="timestamp")
    for turn in range(3):
        offsets = range(turn * 10, turn * 10 + 10)
        times = pa.array([each * DAY_US for each in offsets]).cast(SCHEMA.field(1).type)
        rows = pa.RecordBatch.from_arrays([pa.array(offsets, pa.int64()), times], schema=SCHEMA)
        table.ensure(SCHEMA)
        since = table.marks(["p0"])
        writing = FileSet({"orders": table.placement()})
        writing.write("orders", rows)
        files = [file for _, file in writing.finish()]
        table.commit(files, {"p0": turn * 10 + 10}, since)
        with pytest.raises(MarksMoved):
            table.commit(files, {"p0": turn * 10 + 10}, since)
    store = Store(table.location)
    paths = [store.path(each.path) for each in table.files()]
    found = pyarrow.dataset.dataset(paths, format="parquet", filesystem=store.filesystem)
    assert sorted(found.to_table()["offset"].to_pylist()) == list(range(30))
    assert table.marks(["p0"]) == {"p0": 30}


def test_a_container_that_is_not_there_is_told(home: str):
    with pytest.raises(StoreError, match="there is no bucket 'nolake'"):
        Store(home.replace("lake@", "nolake@")).check()
