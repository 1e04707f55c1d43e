"""Limits of files and connections fit into the file handles of the process."""

import pytest

from goqueue.model.config import Config
from goqueue.server.handles import OTHER_HANDLES, fit_to_handles


def handles_of(config: Config) -> int:
    return (
        OTHER_HANDLES
        + config.storage.open_files_max
        + config.kafka.connections_max
        + 2 * config.http.connections_max
    )


def test_limits_stay_when_there_are_handles_enough():
    config = Config()
    assert fit_to_handles(config, handles_of(config)) == (config, [])


@pytest.mark.parametrize("handles", [100, 256, 1024, 4096, 18_000])
def test_limits_are_lowered_to_what_there_is_and_that_is_told(handles: int):
    lowered, warnings = fit_to_handles(Config(), handles)
    assert handles_of(lowered) <= handles
    assert lowered.kafka.connections_max >= handles // 16
    assert lowered.http.connections_max >= handles // 100
    assert lowered.storage.open_files_max >= handles // 16
    assert any("kafka.connections_max" in each and "ulimit" in each for each in warnings)
