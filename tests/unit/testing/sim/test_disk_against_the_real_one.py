"""The fake is tested against the real thing: the same program on both gives the same answers."""

import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.errors import StorageFailed
from goqueue.runtime import Disk, File, RealDisk
from goqueue.testing.sim import SimDisk

Step = tuple[str, tuple[Any, ...]]

PATHS = ["a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "f", "f/a"]
paths = st.sampled_from(PATHS)
sizes = st.integers(0, 40)

steps = st.one_of(
    st.tuples(st.just("append"), st.tuples(paths, st.binary(max_size=20))),
    st.tuples(st.just("read"), st.tuples(paths, sizes, sizes)),
    st.tuples(st.just("read_cached"), st.tuples(paths, sizes, sizes)),
    st.tuples(st.just("truncate"), st.tuples(paths, sizes)),
    st.tuples(st.just("sync"), st.tuples(paths)),
    st.tuples(st.just("file_size"), st.tuples(paths)),
    st.tuples(st.just("close"), st.tuples(paths)),
    st.tuples(st.just("rename"), st.tuples(paths, paths)),
    st.tuples(st.just("replace_file"), st.tuples(paths, st.binary(max_size=20))),
    *(
        st.tuples(st.just(name), st.tuples(paths))
        for name in (
            "make_directory",
            "exists",
            "size",
            "list_directory",
            "read_file",
            "remove",
            "remove_tree",
            "sync_directory",
        )
    ),
)


class Program:
    """Runs steps on a disk.  Names change only while no file is open, as one writer would do it."""

    def __init__(self, disk: Disk, root: str) -> None:
        self._disk = disk
        self._root = root
        self._files: dict[str, File] = {}

    def run(self, step: Step) -> object:
        name, (path, *rest) = step
        try:
            return self._call(name, f"{self._root}/{path}", rest)
        except (StorageFailed, OSError) as error:
            self._forget(path)
            return type(error).__name__

    def _call(self, name: str, path: str, rest: list[Any]) -> object:
        if name in ("rename", "replace_file", "remove", "remove_tree"):
            self._close_all()
        if name in ("append", "read", "read_cached", "truncate", "sync", "close", "file_size"):
            return self._on_file(name, path, rest)
        if name == "rename":
            rest = [f"{self._root}/{rest[0]}"]
        if name == "size" and path.endswith(("d", "e", "f")):
            return None  # the size of a directory is the file system's own affair
        if name == "list_directory":
            return list(self._disk.list_directory(path))
        return getattr(self._disk, name)(path, *rest)

    def _on_file(self, name: str, path: str, rest: list[Any]) -> object:
        file = self._files.setdefault(path, self._disk.open(path))
        if name == "file_size":
            return file.size
        result: object = getattr(file, name)(*rest)
        return bytes(result) if isinstance(result, bytearray | memoryview) else result

    def _close_all(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _forget(self, path: str) -> None:
        self._files.pop(f"{self._root}/{path}", None)


@pytest.fixture(scope="module")
def real_disk() -> Iterator[RealDisk]:
    disk = RealDisk()
    yield disk
    disk.close()


@given(program=st.lists(steps, max_size=30))
def test_the_same_program_has_the_same_results_on_both_disks(
    real_disk: RealDisk, program: list[Step]
) -> None:
    with tempfile.TemporaryDirectory() as root:
        real = Program(real_disk, root)
        sim_disk = SimDisk()
        sim_disk.make_directory("/disk")
        sim = Program(sim_disk, "/disk")
        for step in program:
            expected, actual = real.run(step), sim.run(step)
            if step[0] == "read_cached" and (expected is None or actual is None):
                continue
            assert actual == expected, step


@pytest.mark.parametrize(
    "misuse",
    [
        lambda disk, root: disk.size(f"{root}/missing"),
        lambda disk, root: disk.free_bytes(f"{root}/missing"),
        lambda disk, root: disk.sync_directory(f"{root}/missing"),
        lambda disk, root: disk.rename(f"{root}/missing", f"{root}/target"),
        lambda disk, root: disk.replace_file(f"{root}/missing/file", b""),
        lambda disk, root: disk.open(f"{root}/missing/file").append(b""),
        lambda disk, root: disk.open(root).append(b""),
        lambda disk, root: disk.remove(root),
    ],
)
def test_mistakes_raise_the_same_error_on_both_disks(
    real_disk: RealDisk, misuse: Callable[[Disk, str], object]
) -> None:
    with tempfile.TemporaryDirectory() as root:
        sim_disk = SimDisk()
        sim_disk.make_directory("/disk")
        with pytest.raises((StorageFailed, OSError)) as expected:
            misuse(real_disk, root)
        with pytest.raises(expected.type):
            misuse(sim_disk, "/disk")
