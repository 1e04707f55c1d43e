"""Lines of several nodes on one stream, each with its node."""

import io

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from goqueue.cli.nodes.output import LINE_BYTES_MAX, NodeLog, label_json, lines_of


class Chunks:
    def __init__(self, *chunks: bytes) -> None:
        self._left = list(chunks)

    async def read(self, n: int, /) -> bytes:
        return self._left.pop(0) if self._left else b""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Gone(io.StringIO):
    def write(self, text: str, /) -> int:
        raise BrokenPipeError


def test_a_line_for_people_begins_with_its_node():
    stream = io.StringIO()
    NodeLog(is_readable=True, stream=stream).write(2, "ready  kafka=x")
    assert stream.getvalue() == "node 2 | ready  kafka=x\n"


def test_at_a_terminal_nodes_have_colors_of_their_own():
    stream = Terminal()
    log = NodeLog(is_readable=True, stream=stream)
    log.write(1, "a")
    log.write(2, "a")
    one, two = stream.getvalue().splitlines()
    assert one.split("node")[0] != two.split("node")[0]


@given(st.dictionaries(st.text(), st.text() | st.integers(), min_size=1))
def test_a_line_for_programs_has_its_node_beside_what_it_had(fields: dict[str, object]):
    fields.pop("node_id", None)
    fields["event"] = "x"
    line = msgspec.json.encode(fields).decode()
    assert msgspec.json.decode(label_json(3, line)) == {"node_id": 3, **fields}


def test_a_line_that_is_no_json_becomes_an_event():
    found = msgspec.json.decode(label_json(1, 'File "x.py", line 1'))
    assert found == {"node_id": 1, "event": 'File "x.py", line 1', "level": "error"}


def test_a_stream_whose_reader_is_gone_harms_nobody():
    NodeLog(is_readable=False, stream=Gone()).write(1, "x")


async def test_lines_are_whole_however_they_come():
    stream = Chunks(b"one\ntw", b"o\n", b"\xff\nlast")
    assert [line async for line in lines_of(stream)] == ["one", "two", "\ufffd", "last"]


async def test_a_line_without_an_end_is_cut():
    found = [line async for line in lines_of(Chunks(b"x" * (LINE_BYTES_MAX + 1), b"y\n"))]
    assert found == ["x" * (LINE_BYTES_MAX + 1), "y"]
