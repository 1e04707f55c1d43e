"""Sessions of Spark Connect: what is one, and what is missing for it."""

import importlib.util

import pytest

from goqueue.spark.runtime.connect import NoConnect, connect, is_connect, is_connected


@pytest.mark.parametrize(
    ("master", "is_it"), [("sc://host:15002", True), ("local[*]", False), (None, False)]
)
def test_a_master_of_connect_is_known_by_its_scheme(master: str | None, is_it: bool):
    assert is_connect(master) == is_it


def test_a_session_is_known_by_its_class():
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    assert is_connected(remote)
    assert not is_connected(object())


def test_what_is_missing_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "grpc" else find(name)
    )
    with pytest.raises(NoConnect, match=r"grpc is missing: pip install 'pyspark\[connect\]'"):
        connect("sc://127.0.0.1:1", app_name="x", settings={})
