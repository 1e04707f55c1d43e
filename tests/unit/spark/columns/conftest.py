"""Both engines.  The one-pass loops run as they were installed: compiled, or, from src/,
interpreted, which is slow and gives the same answers."""

from collections.abc import Iterator
from importlib.util import find_spec

import pytest


@pytest.fixture(scope="module", params=["numpy", "onepass"])
def engine(request: pytest.FixtureRequest) -> Iterator[None]:
    if find_spec("pyarrow") is None:
        pytest.skip("needs goqueue[spark]")
    from goqueue.spark.columns import engines

    chosen = {"numpy": engines.NUMPY, "onepass": engines.COMPILED}[request.param]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "chosen", lambda: chosen)
        yield
