"""The registry's schemas as a job needs them: by subject when it is planned, by id in its tasks."""

from types import TracebackType
from typing import Self

import msgspec

from goqueue.api.schemas import SchemaReference, SchemaVersion
from goqueue.client import Client
from goqueue.client.errors import Refused
from goqueue.client.kafka import NO_LOGIN, KafkaLogin
from goqueue.schemas import Reference, Schema, SchemaText, SchemaType, parse_schema

NOT_FOUND = 404
PATH = "/registry"  # Confluent's clients are given it with the address


class Subject(msgspec.Struct, frozen=True):
    """A version of a subject, with what it refers to: everything that is needed to read by it."""

    name: str
    version: int
    id: int
    schema: SchemaText
    references: dict[str, SchemaText] = {}

    def parse(self) -> Schema:
        return parse_schema(self.schema, self.references)


class Registry:
    """At the HTTP listener of a broker, or of several with commas between.  Close it."""

    def __init__(self, url: str, timeout_ms: int, login: KafkaLogin = NO_LOGIN) -> None:
        addresses = ",".join(each.strip().rstrip("/") for each in url.split(","))
        address, shown = addresses.replace(PATH, ""), login.for_http()
        self._client = Client(address, timeout=timeout_ms / 1000, **shown)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.close()

    def find(self, subject: str, version: int | None = None) -> Subject | None:
        """The latest version, if none is given; None where there is no such thing."""
        try:
            found = self._client.schema_version(subject, version)
        except Refused as refused:
            if refused.status == NOT_FOUND:
                return None
            raise
        return self._whole(found)

    def find_id(self, schema_id: int) -> Schema | None:
        try:
            found = self._client.schema_by_id(schema_id)
        except Refused as refused:
            if refused.status == NOT_FOUND:
                return None
            raise
        return self._whole(found).parse()

    def register(self, subject: str, schema: SchemaText) -> Subject:
        """Raises `Refused` where the subject's level does not let it in."""
        references = [SchemaReference(e.name, e.subject, e.version) for e in schema.references]
        made = self._client.register_schema(subject, schema.text, schema.schema_type, references)
        found = self.find(subject, made.version)
        assert found is not None, "it was registered just now"
        return found

    def _whole(self, found: SchemaVersion) -> Subject:
        references: dict[str, SchemaText] = {}
        self._resolve(found.references, references)
        return Subject(found.subject, found.version, found.id, _text(found), references)

    def _resolve(self, wanted: list[SchemaReference], found: dict[str, SchemaText]) -> None:
        """What others refer to comes before them."""
        for each in wanted:
            if each.name not in found:
                version = self._client.schema_version(each.subject, each.version)
                self._resolve(version.references, found)
                found[each.name] = _text(version)


def _text(version: SchemaVersion) -> SchemaText:
    references = tuple(Reference(e.name, e.subject, e.version) for e in version.references)
    return SchemaText(version.schema, SchemaType(version.schema_type), references)
