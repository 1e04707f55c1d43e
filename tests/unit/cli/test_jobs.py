"""What the jobs of `goqueue pipeline` share: where the broker is, and what Spark may be told."""

import pytest

from goqueue.cli.failures import UsageFailure
from goqueue.cli.jobs import SparkOptions, bootstrap_of
from goqueue.cli.session import Session


def session_of(server: str | None) -> Session:
    session = Session()
    session.server = server
    return session


@pytest.mark.parametrize(
    ("server", "address"),
    [
        (None, "localhost:9092"),
        ("http://broker:8080", "broker:9092"),
        ("https://broker", "broker:9092"),
        ("http://[::1]:8080", "[::1]:9092"),
        (":8081", "localhost:9092"),
    ],
)
def test_the_kafka_listener_is_where_the_http_listener_is(server: str | None, address: str):
    assert bootstrap_of(session_of(server), None) == address


def test_the_option_wins_over_the_variable_and_that_over_the_server(
    monkeypatch: pytest.MonkeyPatch,
):
    session = session_of("http://broker:8080")
    monkeypatch.setenv("GOQUEUE_BOOTSTRAP", "other:1")
    assert bootstrap_of(session, None) == "other:1"
    assert bootstrap_of(session, "third:2") == "third:2"


@pytest.mark.parametrize("master", ["local[*]", "local[2]", "spark://h:1", "yarn", "k8s://u"])
def test_masters_that_spark_knows(master: str):
    SparkOptions(master=master)._check(may_connect=False)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (SparkOptions(master="mesos://host"), "--master mesos://host"),
        (SparkOptions(master="sc://host:15002"), "this job commits from the driver"),
        (SparkOptions(settings={"driver.memory": "4g"}), "--set driver.memory"),
    ],
)
def test_what_spark_does_not_know_is_refused_before_it_starts(options: SparkOptions, told: str):
    with pytest.raises(UsageFailure, match=told), options.run(Session(), "count"):
        pass


def test_sparks_ui_is_served_on_request():
    assert "spark.ui.enabled" not in SparkOptions().spark_settings({})
    asked = SparkOptions(ui=True, settings={"spark.ui.port": "4050"}).spark_settings({"a": "b"})
    assert asked == {"a": "b", "spark.ui.enabled": "true", "spark.ui.port": "4050"}


def test_jobs_that_can_do_without_a_driver_run_over_connect():
    SparkOptions(master="sc://host:15002")._check(may_connect=True)
    with pytest.raises(UsageFailure, match="that of the Connect server"):
        SparkOptions(master="sc://host:15002", ui=True)._check(may_connect=True)
