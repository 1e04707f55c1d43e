"""Which nodes `--nodes N` runs: directories, ports, and what cannot run side by side."""

import itertools
from pathlib import Path

import pytest

from goqueue.cli.configuration import merge
from goqueue.cli.failures import UsageFailure
from goqueue.cli.nodes.plan import (
    NodePlan,
    TakePort,
    free_ports,
    plan_nodes,
    refuse_directory_of_nodes,
)
from goqueue.model.config import Config


def config_of(data_dir: Path, **settings: object) -> Config:
    flags = {name.replace("__", "."): value for name, value in settings.items()}
    return merge({"data_dir": str(data_dir), **flags}, {}).config


def numbers() -> TakePort:
    ports = itertools.count(40_000)
    return lambda host: next(ports)


def plans_of(data_dir: Path, count: int, **settings: object) -> list[NodePlan]:
    return plan_nodes(config_of(data_dir, **settings), count, numbers())


def refusal_of(data_dir: Path, count: int, **settings: object) -> str:
    with pytest.raises(UsageFailure) as caught:
        plans_of(data_dir, count, **settings)
    return caught.value.text


def write_data(directory: Path) -> None:
    (directory / "logs").mkdir(parents=True)


def test_each_node_has_its_directory_and_ports_and_all_but_the_first_follow_it(tmp_path: Path):
    first, second, third = plans_of(tmp_path, 3)
    assert first.settings == {
        "node_id": "1",
        "data_dir": str(tmp_path / "1"),
        "kafka.listen": "127.0.0.1:9092",
        "http.listen": "127.0.0.1:8080",
        "cluster.listen": "127.0.0.1:7000",
    }
    assert second.settings == {
        "node_id": "2",
        "data_dir": str(tmp_path / "2"),
        "kafka.listen": "127.0.0.1:9093",
        "http.listen": "127.0.0.1:8081",
        "cluster.listen": "127.0.0.1:7001",
        "cluster.seeds": "127.0.0.1:7000",
    }
    assert third.settings["cluster.seeds"] == "127.0.0.1:7000"
    assert third.settings["cluster.listen"] == "127.0.0.1:7002"


def test_advertised_ports_follow_each_other_like_those_listened_on(tmp_path: Path):
    _, second = plans_of(tmp_path, 2, kafka__advertised="mq.example.com:19092")
    assert second.settings["kafka.advertised"] == "mq.example.com:19093"
    assert "http.advertised" not in second.settings


def test_every_plan_is_a_configuration_that_a_server_takes(tmp_path: Path):
    for plan in plans_of(tmp_path, 3, topics__replication=3):
        config = merge(plan.settings, {}).config
        assert config.node_id == plan.node_id
        assert config.cluster.seeds == ([] if plan.node_id == 1 else ["127.0.0.1:7000"])


def test_free_ports_are_chosen_once_so_that_a_restart_keeps_them(tmp_path: Path):
    plans = plans_of(
        tmp_path, 2, **{f"{each}__listen": "127.0.0.1:0" for each in ("kafka", "http", "cluster")}
    )
    ports = [plan.settings[f"{each}.listen"] for plan in plans for each in ("kafka", "http")]
    assert ports == [f"127.0.0.1:{number}" for number in (40_000, 40_001, 40_003, 40_004)]
    assert plans[1].settings["cluster.seeds"] == "127.0.0.1:40002"


def test_free_ports_of_a_machine_are_distinct():
    with free_ports() as take:
        assert len({take("127.0.0.1") for _ in range(20)}) == 20


def test_with_metadata_in_etcd_no_node_follows_another(tmp_path: Path):
    plans = plans_of(tmp_path, 2, cluster__quorum="etcd://127.0.0.1:2379")
    assert all("cluster.seeds" not in plan.settings for plan in plans)


def test_data_of_a_single_broker_stays_where_it_is_and_becomes_node_1(tmp_path: Path):
    write_data(tmp_path)
    first, second = plans_of(tmp_path, 2)
    assert (first.data_dir, second.data_dir) == (str(tmp_path), str(tmp_path / "2"))


def test_two_directories_for_node_1_are_refused(tmp_path: Path):
    write_data(tmp_path)
    write_data(tmp_path / "1")
    assert "only one of them can be node 1" in refusal_of(tmp_path, 2)


def test_fewer_nodes_than_have_data_are_refused_and_more_are_not(tmp_path: Path):
    for number in ("1", "2", "3"):
        write_data(tmp_path / number)
    text = refusal_of(tmp_path, 2)
    assert "--nodes 3" in text
    assert "cluster remove 3" in text
    assert len(plans_of(tmp_path, 5)) == 5


def test_a_single_broker_does_not_start_beside_the_data_of_nodes(tmp_path: Path):
    refuse_directory_of_nodes(tmp_path)
    write_data(tmp_path / "1")
    write_data(tmp_path / "2")
    with pytest.raises(UsageFailure, match="--nodes 2"):
        refuse_directory_of_nodes(tmp_path)
    write_data(tmp_path)  # the single broker that became node 1
    refuse_directory_of_nodes(tmp_path)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"node_id": 4}, "numbers its nodes itself"),
        (
            {"cluster__seeds": "127.0.0.1:7000", "cluster__listen": "127.0.0.1:7001"},
            "joins another one",
        ),
        ({"topics__replication": 4}, "replication factor 4"),
        ({"kafka__listen": "127.0.0.1:65534"}, "leaves no port for node 3"),
        ({"kafka__listen": "127.0.0.1:8079"}, "are both 127.0.0.1:8080"),
    ],
)
def test_what_cannot_run_side_by_side_is_refused(
    tmp_path: Path, settings: dict[str, object], text: str
):
    assert text in refusal_of(tmp_path, 3, **settings)
