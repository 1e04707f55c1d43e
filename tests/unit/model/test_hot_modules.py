"""A compiled module gives the same answers as the same file interpreted, errors included."""

import random
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import goqueue.model.record
from goqueue.model.errors import GoQueueError
from goqueue.model.record import Record
from tests.unit.model.record_examples import BASE_TIMESTAMP, EVERY_KIND, record_lists

SOURCES = Path(goqueue.model.record.__file__).parent


class BothWays(NamedTuple):
    interpreted: ModuleType
    compiled: ModuleType

    def agree(self, call: Callable[[ModuleType], object]) -> None:
        assert outcome(call, self.interpreted) == outcome(call, self.compiled)


def outcome(call: Callable[[ModuleType], object], module: ModuleType) -> object:
    try:
        return call(module)
    except GoQueueError as error:
        return type(error), str(error)


@pytest.fixture(scope="module")
def records_both_ways(tmp_path_factory: pytest.TempPathFactory) -> BothWays:
    return both_ways("records", tmp_path_factory.mktemp("records"))


@pytest.fixture(scope="module")
def murmur_both_ways(tmp_path_factory: pytest.TempPathFactory) -> BothWays:
    return both_ways("murmur", tmp_path_factory.mktemp("murmur"))


def both_ways(name: str, folder: Path) -> BothWays:
    return BothWays(load(name, SOURCES / f"{name}.py"), load(name, compile_module(name, folder)))


def compile_module(name: str, folder: Path) -> Path:
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(compiler) is None or find_spec("Cython") is None:
        pytest.skip("needs Cython and a C compiler")
    for suffix in (".py", ".pxd"):
        shutil.copy(SOURCES / f"{name}{suffix}", folder)
    command = [sys.executable, "-m", "Cython.Build.Cythonize", "-3", "--inplace", f"{name}.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return next(folder.glob(f"{name}*{sysconfig.get_config_var('EXT_SUFFIX')}"))


def load(name: str, path: Path) -> ModuleType:
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@given(records=record_lists(min_size=1))
def test_encoding_agrees(records_both_ways: BothWays, records: list[Record]):
    records_both_ways.agree(lambda module: module.encode_records(records))
    records_both_ways.agree(lambda module: module.encode_records(records, 0, BASE_TIMESTAMP))


@given(data=st.binary(max_size=100), count=st.integers(-1, 10))
def test_reading_any_bytes_agrees(records_both_ways: BothWays, data: bytes, count: int):
    agree_on_reading(records_both_ways, data, count)


def test_reading_damaged_records_agrees(records_both_ways: BothWays):
    chance = random.Random(20)
    sound = records_both_ways.interpreted.encode_records(EVERY_KIND)
    for _ in range(5000):
        damaged = bytearray(sound)
        for _ in range(chance.randint(0, 3)):
            damaged[chance.randrange(len(damaged))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
        agree_on_reading(records_both_ways, bytes(damaged), len(EVERY_KIND))


def read_in_slices(module: ModuleType, data: bytes, count: int) -> list[object]:
    """Every slice of two or so objects, and the damage that ended the last one."""
    slices: list[object] = []
    place = 0, 0, -1
    while True:
        found, *rest, damage = module.decode_slice(
            data, count, 9, BASE_TIMESTAMP, -1, 2 * count, *place, 10, 2
        )
        slices.append((found, rest, damage and str(damage)))
        if damage is not None or rest[1] >= count:
            return slices
        place = rest[0], rest[1], rest[2]


def agree_on_reading(modules: BothWays, data: bytes, count: int) -> None:
    modules.agree(lambda module: module.decode_records(data, count, 9, BASE_TIMESTAMP, -1))
    modules.agree(lambda module: module.decode_records(data, count, 9, 2**63 - 1, -1))
    modules.agree(lambda module: module.decode_records(data, count, 9, -(2**63), -1))
    some = frozenset({9, 11, 12})
    modules.agree(lambda module: module.decode_records(data, count, 9, BASE_TIMESTAMP, -1, some))
    modules.agree(lambda module: module.scan_keys(data, count))
    modules.agree(lambda module: module.null_keys(data, count, 2, count - 1))
    modules.agree(lambda module: module.scan_prefixes(data, count, 2, True, count - 1))
    modules.agree(lambda module: module.scan_prefixes(data, count, 5, False))
    modules.agree(lambda module: read_in_slices(module, data, count))


@given(value=st.integers(-(2**63), 2**63 - 1), data=st.binary(max_size=12))
def test_varints_agree(records_both_ways: BothWays, value: int, data: bytes):
    records_both_ways.agree(lambda module: module.write_varlong(value))
    records_both_ways.agree(lambda module: module.read_varlong(data, 0))


@given(key=st.binary(max_size=70))
def test_hashes_agree(murmur_both_ways: BothWays, key: bytes):
    murmur_both_ways.agree(lambda module: module.murmur2(key))
    murmur_both_ways.agree(lambda module: module.murmur3(key))
