"""Variables that say how Azure is reached, as PyArrow wants them."""

import pytest

pytest.importorskip("pyarrow", reason="needs goqueue[spark]")

from goqueue.spark.lake.azure import EMULATOR_KEY, azure_options, azure_place, is_emulated
from goqueue.spark.lake.store import is_in_clear

PLACE = "abfss://lake@account.dfs.core.windows.net/tables/orders"


def test_keys_and_signatures_are_those_that_delta_reads():
    assert azure_options({"AZURE_STORAGE_ACCOUNT_KEY": "a"}) == {"account_key": "a"}
    assert azure_options({"AZURE_STORAGE_ACCESS_KEY": "a"}) == {"account_key": "a"}
    assert azure_options({"AZURE_STORAGE_SAS_TOKEN": "s"}) == {"sas_token": "s"}
    both = {"AZURE_STORAGE_ACCOUNT_KEY": "a", "AZURE_STORAGE_SAS_TOKEN": "s"}
    assert azure_options(both) == {"account_key": "a"}


def test_without_a_variable_an_identity_is_looked_for():
    assert azure_options({"AZURE_CLIENT_ID": "x"}) == {}
    assert azure_place(PLACE, {}) is None


def test_the_emulator_is_where_it_says_and_has_a_key_that_everybody_knows():
    assert azure_options({"AZURE_STORAGE_USE_EMULATOR": "true"}) == {
        "blob_storage_authority": "127.0.0.1:10000",
        "blob_storage_scheme": "http",
        "dfs_storage_authority": "127.0.0.1:10000",
        "dfs_storage_scheme": "http",
        "account_key": EMULATOR_KEY,
    }
    elsewhere = {"AZURE_STORAGE_USE_EMULATOR": "1", "AZURITE_BLOB_STORAGE_URL": "http://az:7/x"}
    assert azure_options(elsewhere)["blob_storage_authority"] == "az:7"
    assert not is_emulated({"AZURE_STORAGE_USE_EMULATOR": "false"})


def test_a_place_is_a_container_and_a_path_in_it():
    found = azure_place(PLACE, {"AZURE_STORAGE_ACCOUNT_KEY": EMULATOR_KEY})
    assert found is not None
    filesystem, path = found
    assert (type(filesystem).__name__, path) == ("AzureFileSystem", "lake/tables/orders")


def test_a_store_without_tls_is_asked_in_clear(monkeypatch: pytest.MonkeyPatch):
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AZURE_STORAGE_USE_EMULATOR"):
        monkeypatch.delenv(name, raising=False)
    assert not is_in_clear()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://store")
    assert not is_in_clear()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://store")
    assert is_in_clear()
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
    assert is_in_clear()
