"""A schema of any format, parsed.  Formats are imported when the first schema of theirs comes."""

from goqueue.schemas.errors import InvalidSchema
from goqueue.schemas.schema import Resolved, Schema, SchemaText, SchemaType


def parse_schema(schema: SchemaText, references: Resolved) -> Schema:
    """Raises `InvalidSchema`."""
    if not schema.text.strip():
        raise InvalidSchema("the schema is empty")
    try:
        match schema.schema_type:
            case SchemaType.AVRO:
                from goqueue.schemas.avro import parse_avro

                return parse_avro(schema.text, references)
            case SchemaType.JSON:
                from goqueue.schemas.json import parse_json

                return parse_json(schema.text, references)
            case SchemaType.PROTOBUF:
                from goqueue.schemas.protobuf import parse_protobuf

                return parse_protobuf(schema.text, references)
    except RecursionError as error:  # bounds are checked before; this is the last one
        raise InvalidSchema("the schema is nested too deeply") from error
