"""Stands in for a Python that runs `goqueue pipeline run`."""

from pathlib import Path

SCRIPT = """#!/bin/sh
echo "$@" > {arguments}
{body}
"""
COPIES = """
echo '{"time":"2026-01-31T12:00:03Z","name":"shop.out","state":"running","rows":3}'
echo 'something else'
echo '{"time":"2026-01-31T12:00:04Z","name":"shop.out","state":"finished","rows":7}'
"""
FAILS = "echo 'error: there is no topic orders' >&2\nexit 1\n"
HANGS = "sleep 600 &\nwait\n"


def fake_python(folder: Path, body: str) -> str:
    """Its path; what it was given is in the file `arguments`."""
    script = folder / "python"
    script.write_text(SCRIPT.format(arguments=folder / "arguments", body=body))
    script.chmod(0o755)
    return str(script)
