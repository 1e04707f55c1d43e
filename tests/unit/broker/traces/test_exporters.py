import msgspec
import pytest

from goqueue.broker import Broker
from goqueue.broker.traces.exporters import KEPT_EVENTS_MAX, Exporters
from goqueue.model.config import Config, TracesConfig
from goqueue.model.errors import InvalidSetting
from goqueue.runtime import Environment
from goqueue.testing.sim.world import World
from goqueue.trace.events import Step
from tests.unit.broker.traces.trace_world import Bench
from tests.unit.trace.trace_events import event


def test_spans_go_to_a_file_of_lines_that_is_rotated():
    traces = TracesConfig(export=["jsonl"], jsonl_bytes_max=300, jsonl_files_max=3)
    config = Config(data_dir="/data", traces=traces)

    async def main(environment: Environment) -> None:
        async with Broker(environment, config).running() as broker:
            bench = Bench(broker)
            await broker.create_topic("jobs", partitions=1)
            for _ in range(5):
                await bench.publish("jobs", b"a")
                await bench.sleep(2)
            disk = environment.disk
            lines = (disk.read_file("/data/traces/traces.jsonl") or b"").splitlines()
            assert msgspec.json.decode(lines[0])["name"] == "publish.persisted"
            names = disk.list_directory("/data/traces")
            assert sorted(names) == ["traces.jsonl", "traces.jsonl.1", "traces.jsonl.2"]
            assert broker.trace_history.exporters == ["jsonl"]

    with World(0) as world:
        world.run(main(world.environment("a")))


def test_what_a_slow_collector_does_not_take_is_dropped_and_counted():
    with World(0) as world:
        environment = world.environment("a")
        config = Config(data_dir="/data", traces=TracesConfig(export=["stdout"]))
        exporters = Exporters(environment.disk, environment.clock, config)
        exporters.take([event(1, Step.FETCHED, 0)] * (KEPT_EVENTS_MAX + 7))
        assert exporters.dropped_total == 7


def test_an_unknown_exporter_is_refused_with_what_there_is():
    with World(0) as world:
        environment = world.environment("a")
        config = Config(data_dir="/data", traces=TracesConfig(export=["zipkin"]))
        with pytest.raises(InvalidSetting, match="stdout, jsonl, otlp-http, otlp-grpc"):
            Exporters(environment.disk, environment.clock, config)
