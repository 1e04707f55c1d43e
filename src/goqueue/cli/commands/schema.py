"""`goqueue schema`: register schemas, check how they evolve, and show them."""

import difflib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.command import command, completion
from goqueue.cli.confirming import Force, confirm
from goqueue.cli.output import rows_of, show, show_facts, show_text
from goqueue.model.options import argument, option

if TYPE_CHECKING:
    from goqueue.client import Client

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Register, check and show schemas."
)

TYPES = {".avsc": "AVRO", ".avro": "AVRO", ".json": "JSON", ".proto": "PROTOBUF"}


def _subjects(client: "Client") -> list[str]:
    return [each.subject for each in client.schema_stats().subjects]


Subject = Annotated[
    str,
    argument(
        "Name of the subject, such as orders-value.",
        metavar="SUBJECT",
        complete=completion(_subjects),
    ),
]
SchemaFile = Annotated[Path, argument("A file with the schema.", metavar="FILE")]
TypeOption = Annotated[
    str | None,
    option("AVRO, JSON or PROTOBUF. [by the file's name: .avsc, .json, .proto]", "--type"),
]
Version = Annotated[int | None, option("Number of the version. [latest]", "--version")]


@command(app, "list")
def list_subjects(client: "Client") -> None:
    """List the subjects."""
    found = client.schema_stats().subjects
    show(
        found,
        ("SUBJECT", "VERSIONS", "LATEST", "ID", "COMPATIBILITY"),
        rows_of(
            found,
            *("subject", "version_count", "latest_version", "latest_schema_id", "compatibility"),
        ),
        empty="no schemas",
    )


@command(app, "show")
def show_version(client: "Client", subject: Subject, version: Version = None) -> None:
    """Show a version of a subject, with its schema."""
    found = client.schema_version(subject, version)
    show_facts(
        found,
        [
            ("subject", found.subject),
            ("version", found.version),
            ("id", found.id),
            ("type", found.schema_type),
            ("references", " ".join(each.name for each in found.references) or None),
            ("schema", found.schema),
        ],
    )


@command(app, "register")
def register(
    client: "Client", subject: Subject, file: SchemaFile, schema_type: TypeOption = None
) -> None:
    """Register a schema as a version of a subject, if it is compatible."""
    text, kind = _read(file, schema_type)
    found = client.register_schema(subject, text, kind)
    show_text(found, f"{subject!r} version {found.version} has id {found.id}")


@command(app, "check")
def check(
    client: "Client",
    subject: Subject,
    file: SchemaFile,
    schema_type: TypeOption = None,
    version: Version = None,
) -> None:
    """Check whether a schema may follow a version; exit code 1 if not."""
    text, kind = _read(file, schema_type)
    found = client.check_schema(subject, text, kind, version=version)
    show_text(found, "\n".join(found.messages) or "compatible")
    if not found.is_compatible:
        raise typer.Exit(1)


@command(app, "diff")
def diff(
    client: "Client",
    subject: Subject,
    before: Annotated[int, argument("The older version.", metavar="OLD")],
    after: Annotated[int, argument("The newer version.", metavar="NEW")],
) -> None:
    """Show what changed between two versions, line by line."""
    old, new = (client.schema_version(subject, each) for each in (before, after))
    names = f"{subject} version {before}", f"{subject} version {after}"
    found = list(difflib.unified_diff(_lines(old.schema), _lines(new.schema), *names, lineterm=""))
    show_text({"diff": found}, "\n".join(found) or "no difference")


@command(app, "delete")
def delete(
    client: "Client",
    subject: Subject,
    version: Annotated[int | None, option("Only this version.", "--version")] = None,
    permanent: Annotated[bool, option("Delete permanently what was deleted before.")] = False,
    force: Force = False,
) -> None:
    """Delete a subject or a version. Its schemas can be read by id until --permanent."""
    what = f"version {version} of {subject}" if version else subject
    confirm(f"Delete {what}?", "delete", force=force)
    if version is None:
        gone = client.delete_subject(subject, permanent=permanent)
    else:
        gone = [client.delete_schema_version(subject, version, permanent=permanent).deleted]
    show_text({"deleted": gone}, f"deleted version {', '.join(map(str, gone))} of {subject!r}")


@command(app, "config")
def config(
    client: "Client",
    subject: Annotated[
        str | None,
        argument(
            "Name of the subject. [the default of all]",
            metavar="[SUBJECT]",
            complete=completion(_subjects),
        ),
    ] = None,
    level: Annotated[
        str | None, option("New level: BACKWARD, FORWARD, FULL, NONE …", "--set")
    ] = None,
) -> None:
    """Show or set the compatibility level of a subject, or of all."""
    if level is None:
        found = client.schema_level(subject)
    else:
        found = client.set_schema_level(level, subject)
    show_text(found, found.compatibility)


def _read(file: Path, schema_type: str | None) -> tuple[str, str]:
    kind = schema_type or TYPES.get(file.suffix)
    if kind is None:
        raise typer.BadParameter(f"say --type: {file.name} is none of {', '.join(TYPES)}")
    try:
        return file.read_text(), kind.upper()
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{file}: {error}") from error


def _lines(schema: str) -> list[str]:
    """JSON as people read it; a .proto file as it is."""
    try:
        return json.dumps(json.loads(schema), indent=2).splitlines()
    except ValueError:
        return schema.splitlines()
