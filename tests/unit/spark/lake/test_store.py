"""Which filesystem a place is in.  Google's and Azure's are made here, and not reached: for Azure's
see `test_azurite`."""

import pytest

pytest.importorskip("pyarrow", reason="needs goqueue[spark]")

from goqueue.spark.lake import open_table
from goqueue.spark.lake.store import Store

AZURE = "abfss://container@account.dfs.core.windows.net/lake"


@pytest.mark.parametrize(
    ("root", "kind", "path", "url"),
    [
        ("/lake", "LocalFileSystem", "/lake/orders", "file:///lake/orders"),
        ("gs://bucket/lake", "GcsFileSystem", "bucket/lake/orders", "gs://bucket/lake/orders"),
        (AZURE, "AzureFileSystem", "container/lake/orders", f"{AZURE}/orders"),
        (
            AZURE.replace("abfss", "abfs"),
            "AzureFileSystem",
            "container/lake/orders",
            f"{AZURE}/orders",
        ),
    ],
)
def test_a_url_tells_the_filesystem_and_the_path(root: str, kind: str, path: str, url: str):
    store = Store(root)
    assert type(store.filesystem).__name__ == kind
    assert store.path("orders") == path
    assert store.url("orders") == url


@pytest.mark.parametrize("root", ["gs://bucket/lake/orders", f"{AZURE}/orders"])
@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_tables_of_other_clouds_are_opened_without_being_asked_for(root: str, format: str):
    table = open_table(format, root, date_column="date", time_column="timestamp")
    assert table.location == root
    assert table.placement().root == root
