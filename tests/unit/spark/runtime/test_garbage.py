"""What stays is left out of collections; what is thrown away later is not."""

import gc
import sys
import types
import weakref
from collections.abc import Iterator

import pytest

from goqueue.spark.runtime import garbage


class Loop:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()
    garbage._freeze.cache_clear()


def test_modules_are_passed_over_and_later_garbage_is_collected() -> None:
    garbage.freeze_gc()
    assert gc.get_freeze_count() > 1000
    loop = Loop()
    seen = weakref.ref(loop)
    del loop
    gc.collect()
    assert seen() is None


def test_what_a_task_leaves_behind_is_frozen_only_with_new_modules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    garbage.freeze_gc()
    kept = [[each] for each in range(1000)]
    before = gc.get_freeze_count()
    garbage.freeze_gc()
    assert gc.get_freeze_count() <= before
    monkeypatch.setitem(sys.modules, "one_more", types.ModuleType("one_more"))
    garbage.freeze_gc()
    assert gc.get_freeze_count() >= before + len(kept)
