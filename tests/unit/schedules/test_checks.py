"""A schedule's mistakes, all at once."""

import msgspec
import pytest

from goqueue.model.ids import TopicName
from goqueue.schedules import Definition, Message, Timing, check_definition
from goqueue.schedules.errors import InvalidSchedule
from tests.unit.schedules.moments import at

NOW = at("2026-01-01T00:00")
GOOD = Definition("daily", TopicName("t"), Timing("0 9 * * *"), Message(b"hello"))


def test_a_good_one_has_none():
    check_definition(GOOD, NOW)


def test_all_are_named_with_their_fields():
    bad = msgspec.structs.replace(
        GOOD,
        name="a/b",
        topic=TopicName("__groups"),
        timing=Timing("61 * * * *", timezone="Asia/Lahore"),
        message=Message(b"{{when}}", headers=(("gq-schedule-run", b"1"),)),
        max_runs=0,
        missed_max=5_000,
        grace_ms=-1,
        description="x" * 2_000,
    )
    with pytest.raises(InvalidSchedule) as refusal:
        check_definition(bad, NOW)
    assert [each.field for each in refusal.value.mistakes] == [
        *("name", "topic", "cron", "timezone", "max_runs", "missed_max", "grace", "description"),
        *("message.headers", "message.value"),
    ]
    assert "timezone: 'Asia/Lahore' is no time zone" in str(refusal.value)
    assert "did you mean 'Asia/Karachi'?" in str(refusal.value)
