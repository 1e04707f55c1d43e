"""The two engines: which one runs, and that they write the same bytes."""

import pytest

pytest.importorskip("pyarrow", reason="needs goqueue[spark]")
pytest.importorskip("numpy", reason="needs goqueue[spark]")

from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.errors import InvalidSetting
from goqueue.model.record import Record
from goqueue.spark.columns import Encoder, engines
from tests.unit.model.record_examples import record_lists
from tests.unit.spark.columns.row_examples import limit_above, rows_from

choose = engines.choose.__wrapped__


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setattr(engines, "is_compiled", lambda: request.param)


@pytest.mark.parametrize(
    ("compiled", "asked", "name"),
    [
        (True, None, "compiled"),
        (True, "numpy", "numpy"),
        (True, "compiled", "compiled"),
        (False, None, "numpy"),
        (False, "numpy", "numpy"),
    ],
    indirect=["compiled"],
)
@pytest.mark.usefixtures("compiled")
def test_the_compiled_engine_is_taken_where_it_is_compiled(
    monkeypatch: pytest.MonkeyPatch, asked: str | None, name: str
):
    monkeypatch.setenv(engines.VARIABLE, asked or "")
    assert choose().name == name


@pytest.mark.parametrize(
    ("compiled", "asked"), [(False, "compiled"), (True, "cuda")], indirect=["compiled"]
)
@pytest.mark.usefixtures("compiled")
def test_an_engine_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch, asked: str):
    monkeypatch.setenv(engines.VARIABLE, asked)
    with pytest.raises(InvalidSetting):
        choose()


@given(
    records=record_lists(min_size=1),
    copies=st.sampled_from((1, 30)),
    limit=st.sampled_from((100, 100_000)),
)
def test_both_engines_write_the_same_bytes(records: list[Record], copies: int, limit: int):
    rows = rows_from(records * copies)
    limit = limit_above(records, limit)
    numpy, onepass = (
        list(Encoder("orders", lambda _: 3, batch_bytes_max=limit, engine=engine).encode(rows))
        for engine in (engines.NUMPY, engines.COMPILED)
    )
    assert numpy == onepass
