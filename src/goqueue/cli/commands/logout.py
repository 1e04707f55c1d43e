"""`goqueue logout`: forget a password or key; the server's address stays."""

import msgspec
import typer

from goqueue.cli import contexts
from goqueue.cli.command import command
from goqueue.cli.contexts import ContextFile
from goqueue.cli.failures import UsageFailure
from goqueue.cli.output import show_text
from goqueue.cli.session import Session

app = typer.Typer(add_completion=False)


@command(app)
def logout(session: Session) -> None:
    """Remove the password, API key and certificate from a context: --context, or the current one.

    The server still knows them: `goqueue key delete` and `goqueue user delete` change that.
    """
    file = contexts.load()
    name = session.context or file.current_context
    if name is None:
        raise UsageFailure("there is no current context to log out of: name one with --context")
    entry = msgspec.structs.replace(
        file.find(name).without_secrets(), user=None, cert_file=None, key_file=None
    )
    contexts.save(ContextFile(file.current_context, {**file.contexts, name: entry}))
    show_text({"context": name, "server": entry.server}, f"logged out of {entry.server}")
