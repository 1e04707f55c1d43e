"""Avro: schemas, their compatibility, and payloads."""

from collections.abc import Sequence
from typing import Any

from goqueue.schemas.avro import compatibility
from goqueue.schemas.avro.model import AvroType, Named
from goqueue.schemas.avro.parsing import Names, parse
from goqueue.schemas.avro.validation import AvroValidator
from goqueue.schemas.documents import canonical, compact, read_document
from goqueue.schemas.schema import Incompatibility, Resolved, Schema, SchemaType, Validator


class AvroSchema:
    schema_type = SchemaType.AVRO

    def __init__(self, document: Any, type_: AvroType) -> None:
        self._document = document
        self.type = type_

    @property
    def text(self) -> str:
        return compact(self._document)

    @property
    def normalized(self) -> str:
        return canonical(self._document)

    def record_name(self, indexes: Sequence[int] = ()) -> str | None:
        return self.type.full_name if isinstance(self.type, Named) else None

    def unreadable(self, written: Schema) -> list[Incompatibility]:
        assert isinstance(written, AvroSchema)
        return compatibility.unreadable(self.type, written.type)

    def compile(self, *, is_framed: bool = True) -> Validator:
        return AvroValidator(self.type)


def parse_avro(text: str, references: Resolved) -> AvroSchema:
    names: Names = {}
    for each in references.values():
        parse(_read(each.text), names)
    document = _read(text)
    return AvroSchema(document, parse(document, names))


def _read(text: str) -> Any:
    """A primitive type may be sent without quotes, as other registries take it, too."""
    stripped = text.strip()
    return stripped if stripped.isalpha() else read_document(text)
