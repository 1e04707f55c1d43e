"""The words of a .proto file."""

import re
from typing import Final, NamedTuple, NoReturn

from goqueue.schemas.errors import InvalidSchema

_TOKEN: Final = re.compile(
    r"""
      (?P<space>\s+|//[^\n]*|/\*.*?\*/)
    | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    | (?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<mark>[{}\[\]()<>;,=.:+/-])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
END: Final = ""


class Token(NamedTuple):
    kind: str
    text: str
    position: int


class Tokens:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _split(text)
        self._next = 0

    def peek(self) -> str:
        return self._tokens[self._next].text

    def peek_kind(self) -> str:
        return self._tokens[self._next].kind

    def take(self) -> str:
        token = self._tokens[self._next]
        if token.kind != "end":
            self._next += 1
        return token.text

    def accept(self, text: str) -> bool:
        """Take it if it is next."""
        found = self._tokens[self._next]
        if found.text == text and found.kind != "string":
            self._next += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            self.refuse(f"{text!r} is expected, found {self.peek() or 'the end'!r}")

    def word(self) -> str:
        if self.peek_kind() != "word":
            self.refuse(f"a name is expected, found {self.peek() or 'the end'!r}")
        return self.take()

    def full_name(self) -> str:
        """With dots, also in front."""
        name = "." if self.accept(".") else ""
        name += self.word()
        while self.accept("."):
            name += f".{self.word()}"
        return name

    def string(self) -> str:
        """Strings beside each other are one."""
        if self.peek_kind() != "string":
            self.refuse(f"a string is expected, found {self.peek() or 'the end'!r}")
        parts = []
        while self.peek_kind() == "string":
            parts.append(_ESCAPE.sub(_unescape, self.take()[1:-1]))
        return "".join(parts)

    def integer(self) -> int:
        sign = -1 if self.accept("-") else 1
        text = self.take()
        try:
            if text.lower().startswith("0x"):
                return sign * int(text, 16)
            return sign * int(text, 8 if len(text) > 1 and text[0] == "0" else 10)
        except ValueError:
            self.refuse(f"an integer is expected, found {text!r}")

    def refuse(self, text: str) -> NoReturn:
        position = self._tokens[self._next].position
        line = self._text.count("\n", 0, position) + 1
        raise InvalidSchema(f"invalid Protobuf schema at line {line}: {text}")


def _split(text: str) -> list[Token]:
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            line = text.count("\n", 0, position) + 1
            raise InvalidSchema(
                f"invalid Protobuf schema at line {line}: unexpected {text[position]!r}"
            )
        kind = match.lastgroup or ""
        if kind != "space":
            tokens.append(Token(kind, match.group(), position))
        position = match.end()
    tokens.append(Token("end", END, len(text)))
    return tokens


def _unescape(match: re.Match[str]) -> str:
    code = match.group(1)
    if code[0] == "x" and len(code) > 1:
        return chr(int(code[1:], 16))
    if code[0] in "01234567":
        return chr(int(code, 8) & 0xFF)
    return _ESCAPED.get(code, code)
