"""How messages look on standard output."""

import pytest

from goqueue.cli.failures import UsageFailure
from goqueue.cli.rendering import heading, renderer, unescape
from goqueue.client.http.messages import Received

MESSAGE = Received("orders", 1, 42, 1_500, b"k\xff", b"v\x1b[31m", (("h", b"1"),))


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("raw", b"v\x1b[31m\n"),
        (r"{partition}:{offset} {timestamp_ms}\n", b"1:42 1500\n"),
        ("{key}|{value}", b"k\xff|v\x1b[31m"),
        (r"{topic}\t{headers}", b"orders\th=1"),
        ("{offset:>6}|{topic!r:<9}|{{}}", b"    42|'orders' |{}"),
        ("{timestamp}", b"1970-01-01T00:00:01.500Z"),
    ],
)
def test_a_form_gives_bytes(form: str, expected: bytes):
    assert renderer(form)(MESSAGE) == expected


@pytest.mark.parametrize(
    "form",
    [
        "{nothing}",
        "{key.__class__}",
        "{value[0]}",
        "{0}",
        "{}",
        "{offset:{partition}}",
        "{key",
        "xml",
    ],
)
def test_a_template_knows_its_fields_and_nothing_else(form: str):
    with pytest.raises(UsageFailure):
        renderer(form)


def test_a_format_that_does_not_fit_its_field_is_a_usage_failure():
    with pytest.raises(UsageFailure):
        renderer("{key:d}")(MESSAGE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"a\nb", "a\nb"),
        (r"\\n", "\\n"),
        (r"\\\n", "\\\n"),
        (r"\q\t", "\\q\t"),
        ("end\\", "end\\"),
        (r"\0", "\0"),
    ],
)
def test_escapes(text: str, expected: str):
    assert unescape(text) == expected


def test_columns_show_control_characters_instead_of_obeying_them():
    line = renderer("table")(MESSAGE)
    assert b"\x1b" not in line
    assert rb"v\x1b[31m" in line
    assert heading().split() == [b"PARTITION", b"OFFSET", b"TIMESTAMP", b"KEY", b"VALUE"]


def test_what_is_not_text_is_base64_in_json_and_yaml():
    assert b'"encoding":"base64"' in renderer("json")(MESSAGE)
    assert renderer("yaml")(MESSAGE).startswith(b"---\n")
    assert renderer("raw")(Received("t", 0, 0, 0, None, None)) == b"\n"
