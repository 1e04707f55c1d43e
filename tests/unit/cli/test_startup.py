"""Each trick for a quick start still does what it is there for."""

import subprocess
import sys

import pytest


def loads(code: str, module: str) -> bool:
    """Whether a program has a module when it ends."""
    program = f"{code}\nimport sys\nprint(sys.modules.get({module!r}) is not None)"
    shown = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, check=True, text=True
    )
    return shown.stdout.splitlines()[-1] == "True"


PARSE = """
import typer
from goqueue.cli.startup import use_plain_types
app = typer.Typer()
@app.command()
def count(number: int, names: list[str] = typer.Option([])): print(number, names)
command = typer.main.get_command(app)
PLAIN
command(["7", "--names", "a"], standalone_mode=False)
"""


@pytest.mark.parametrize(
    ("with_it", "without_it", "module"),
    [
        (
            "from goqueue.cli.startup import *\nskip_httpx_command()\nimport httpx",
            "import httpx",
            "httpx._main",
        ),
        (
            "from goqueue.cli.startup import *\nskip_hypothesis()\nimport kio.static.primitive",
            "import kio.static.primitive",
            "hypothesis",
        ),
        (
            PARSE.replace("PLAIN", "use_plain_types(command)"),
            PARSE.replace("PLAIN", ""),
            "pydantic",
        ),
        (
            "from goqueue.cli.startup import *\nskip_pydantic()\n"
            "from litestar import Litestar\nLitestar([])",
            "from litestar import Litestar\nLitestar([])",
            "pydantic",
        ),
    ],
    ids=["httpx", "kio", "typer", "litestar"],
)
def test_a_trick_keeps_a_module_out(with_it: str, without_it: str, module: str):
    assert loads(without_it, module), "the library needs no trick any more: drop it"
    assert not loads(with_it, module)


def test_collections_pass_over_what_a_start_has_made():
    program = """
import gc
from goqueue.cli.startup import pause_gc, resume_gc
pause_gc()
print(gc.isenabled())
made = [[] for _ in range(1000)]
resume_gc()
print(gc.isenabled(), gc.get_freeze_count() >= 1000)
"""
    shown = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, check=True, text=True
    )
    assert shown.stdout.split() == ["False", "True", "True"]
