"""A wall clock that is set while the broker runs."""

import structlog

from goqueue.broker import Broker
from goqueue.broker.clock_watch import CLOCK_CHECK_SECONDS
from goqueue.testing.sim import SimClock
from tests.unit.broker.brokers import play


def test_a_wall_clock_that_was_set_is_told_once():
    async def story(broker: Broker) -> None:
        clock = broker.environment.clock
        assert isinstance(clock, SimClock)
        with structlog.testing.capture_logs() as lines:
            await clock.sleep(2 * CLOCK_CHECK_SECONDS)
            clock.jump(3_600_000)
            await clock.sleep(4 * CLOCK_CHECK_SECONDS)
        assert [line["log_level"] for line in lines if "wall clock" in line["event"]] == ["warning"]

    play(story)
