"""Processes of ours do not load what only tests need."""

import subprocess
import sys

import pytest

SHOWN = "import sys; print(sorted({'hypothesis', 'kio'} & set(sys.modules)))"


def find_loaded_modules(statement: str) -> str:
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"{statement}; {SHOWN}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_kio_comes_alone():
    assert (
        find_loaded_modules("from goqueue.wire.kio_import import load_kio; load_kio()") == "['kio']"
    )


def test_who_uses_hypothesis_still_can():
    told = "from goqueue.wire.kio_import import load_kio; load_kio(); import hypothesis.strategies"
    assert find_loaded_modules(told) == "['hypothesis', 'kio']"
    told = "import hypothesis; from goqueue.wire.kio_import import load_kio; load_kio()"
    assert find_loaded_modules(told) == "['hypothesis']"


def test_the_client_of_kafka_loads_no_hypothesis():
    assert find_loaded_modules("from goqueue.client.kafka import KafkaClient") == "['kio']"


@pytest.mark.parametrize(
    "module",
    ["source.partition_reader", "source.stream_offsets", "sink.writers", "runtime.listener"],
)
def test_processes_of_spark_load_no_hypothesis(module: str):
    pytest.importorskip("pyspark", reason="needs goqueue[spark]")
    assert find_loaded_modules(f"import goqueue.spark.{module}") == "['kio']"
