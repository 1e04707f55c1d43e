"""JSON Schema (drafts 4 to 7, 2019-09, 2020-12): schemas, their compatibility, and payloads."""

from collections.abc import Sequence
from typing import Final

from goqueue.schemas.documents import canonical, compact, read_document
from goqueue.schemas.errors import InvalidSchema
from goqueue.schemas.json import compatibility
from goqueue.schemas.json.content_model import Side
from goqueue.schemas.json.references import Node, References
from goqueue.schemas.json.typed import Typed, find_type
from goqueue.schemas.json.validation import JsonValidator, compile_schema, draft_of
from goqueue.schemas.json.work import Looks
from goqueue.schemas.schema import Incompatibility, Resolved, Schema, SchemaType, Validator

UNTYPED_DRAFTS: Final = ("draft-04",)  # where 1.0 is no integer, and bounds are written otherwise


class JsonSchema:
    schema_type = SchemaType.JSON

    def __init__(self, document: Node, named: dict[str, Node]) -> None:
        self.document = document
        self._named = named
        self.references = References(document, named)
        self._looks = Looks(document, self.references)
        self._compiled = compile_schema(document, named)
        self._typed: Typed | None = None

    @property
    def text(self) -> str:
        return compact(self.document)

    @property
    def normalized(self) -> str:
        return canonical(self.document)

    def record_name(self, indexes: Sequence[int] = ()) -> str | None:
        """The title, as Confluent's serializers take it."""
        title = self.document.get("title") if isinstance(self.document, dict) else None
        return title if isinstance(title, str) else None

    def unreadable(self, written: Schema) -> list[Incompatibility]:
        assert isinstance(written, JsonSchema)
        old = Side(written.document, written.references)
        return compatibility.unreadable(old, Side(self.document, self.references))

    def compile(self, *, is_framed: bool = True) -> Validator:
        return JsonValidator(self._compiled, self._looks, self._find_type())

    def _find_type(self) -> Typed | None:
        if self._typed is None and draft_of(self.document) not in UNTYPED_DRAFTS:
            self._typed = find_type(self.document, self.references)
        return self._typed


def parse_json(text: str, references: Resolved) -> JsonSchema:
    named = {name: _read(each.text) for name, each in references.items()}
    return JsonSchema(_read(text), named)


def _read(text: str) -> Node:
    document = read_document(text)
    if not isinstance(document, dict | bool):
        raise InvalidSchema("a JSON Schema is an object, or true or false")
    return document
