"""`goqueue version`: what runs here, how, and what answers at the server."""

import platform
from pathlib import Path
from typing import Annotated, Any

import typer

from goqueue import _version
from goqueue.cli.command import command
from goqueue.cli.failures import Failure
from goqueue.cli.output import show_facts
from goqueue.cli.session import Session
from goqueue.model.options import option

PROBE_SECONDS = 2.0

app = typer.Typer(add_completion=False)


@command(app)
def version(
    session: Session,
    client_only: Annotated[
        bool, option("Do not ask a server for its version.", "--client")
    ] = False,
) -> None:
    """Show the versions of the client and the server, and which modules are compiled."""
    modules = hot_modules()
    facts = {
        "version": _version.__version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{platform.system().lower()} {platform.machine()}",
        "modules": modules,
    }
    if not client_only:
        facts["server"] = _ask(session)
    show_facts(facts, _lines(facts))


def hot_modules() -> dict[str, str]:
    """Each module that an install compiles if it can: compiled or interpreted.

    Which ones those are is told by the `.pxd` files, with the C types, beside them.
    """
    package = Path(_version.__file__).parent
    compiled = _version.compiled_modules()
    typed = (
        ".".join((package.name, *path.relative_to(package).with_suffix("").parts))
        for path in package.rglob("*.pxd")
    )
    return {
        name: "compiled" if name in compiled else "interpreted"
        for name in sorted({*compiled, *typed})
    }


def _ask(session: Session) -> dict[str, Any]:
    """What the server says of itself, or why it said nothing.  Never fails the command."""
    from goqueue.cli.probe import is_listening

    try:
        target = session.target()
    except Failure as failure:
        return {"url": None, "problem": failure.text}
    if not is_listening(target.server, min(PROBE_SECONDS, target.timeout)):
        return {"url": target.server, "problem": "no server there"}
    from goqueue.client.errors import ClientError

    try:
        with session.client() as client:
            return {"url": target.server, "version": client.version().version}
    except ClientError as error:
        return {"url": target.server, "problem": str(error)}


def _lines(facts: dict[str, Any]) -> list[tuple[str, object]]:
    lines: list[tuple[str, object]] = [
        ("goqueue", facts["version"]),
        ("python", facts["python"]),
        ("platform", facts["platform"]),
    ]
    lines += [(name, how) for name, how in facts["modules"].items()]
    if server := facts.get("server"):
        lines.append(("server", f"{server.get('version') or server['problem']} ({server['url']})"))
    return lines
