"""Placeholders: plain values, once."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.ids import TopicName
from goqueue.schedules import Definition, Message, Timing, render
from goqueue.schedules.template import PLACEHOLDERS, TEMPLATE_BYTES_MAX, find_template_mistakes
from tests.unit.schedules.moments import at

WHEN = at("2026-03-29T07:00:00.250")


def definition(message: Message, name: str = "daily") -> Definition:
    return Definition(name, TopicName("t"), Timing("0 9 * * *", timezone="Europe/Berlin"), message)


def test_placeholders_are_filled_in():
    text = "|".join(f"{{{{{name}}}}}" for name in PLACEHOLDERS)
    message = Message(text.encode(), b"{{ name }}-{{run}}", (("h", b"{{run}}"), ("n", None)), 2)
    found = render(definition(message), 7, WHEN)
    assert found.value == (
        b"daily|7|2026-03-29T07:00:00.250Z|1774767600250|2026-03-29T09:00:00+02:00|2026-03-29"
    )
    assert found.key == b"daily-7"
    assert found.headers == (("h", b"7"), ("n", None))
    assert found.partition == 2


def test_what_is_filled_in_is_not_looked_at_again():
    message = Message(b"{{{{run}}}} {{{{name}}}}")
    assert render(definition(message), 1, WHEN).value == b"{{1}} {{daily}}"


@given(st.binary(max_size=200))
def test_bytes_without_placeholders_stay_as_they_are(value: bytes):
    message = Message(value)
    if not find_template_mistakes(message) and b"{{" not in value:
        assert render(definition(message), 1, WHEN).value == value


def test_binary_messages_have_no_placeholders():
    message = Message(b"{{run}} {{nothing}}", is_template=False)
    assert find_template_mistakes(message) == []
    assert render(definition(message), 1, WHEN) == message


def test_unknown_placeholders_are_named():
    message = Message(b'{"a":{"b":1}} {{runs}} {{ x y }} {{', b"{{time}}", (("h", b"{{nam}}"),))
    found = find_template_mistakes(message)
    assert [(each.field, each.suggestion) for each in found] == [
        ("message.value", "{{run}}"),
        ("message.key", ""),
        ("message.headers", "{{name}}"),
    ]


def test_a_template_has_a_bound():
    (found,) = find_template_mistakes(Message(b"x" * (TEMPLATE_BYTES_MAX + 1)))
    assert "65537 bytes" in found.message
