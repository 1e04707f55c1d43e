"""`goqueue pipeline journeys`: what is refused before Spark starts."""

import pytest

from tests.unit.cli.invocation import run


@pytest.mark.usefixtures("server")
def test_a_topic_that_is_not_there_is_told_at_once():
    assert "'nowhere'" in run("pipeline", "journeys", "nowhere", code=4).output


def test_a_time_that_is_none_is_refused():
    refused = run("pipeline", "journeys", "orders", "--since", "soon", code=2)
    assert "'soon' is not a time" in refused.output
