"""`goqueue version`: the client's facts and the server's."""

import msgspec

from goqueue._version import __version__
from goqueue.cli.commands.version import hot_modules
from tests.unit.cli.invocation import run
from tests.unit.cli.test_main import HEAVY, NOBODY, find_loaded_modules


def test_version_tells_of_every_hot_module_and_of_the_server():
    facts = msgspec.json.decode(run("version", "-s", NOBODY).stdout)
    assert facts["version"] == __version__
    assert facts["modules"] == hot_modules()
    assert set(facts["modules"]) >= {"goqueue.model.murmur", "goqueue.model.records"}
    assert facts["server"] == {"url": NOBODY, "problem": "no server there"}
    assert "server" not in msgspec.json.decode(run("version", "--client").stdout)


def test_version_is_readable_too():
    shown = run("version", "--client", "--output", "table").stdout
    assert ["goqueue:", __version__] in [line.split() for line in shown.splitlines()]


def test_version_loads_nothing_heavy():
    loaded = find_loaded_modules(
        "import contextlib, io\n"
        "from goqueue.cli.main import app\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        f"    app(['version', '-s', '{NOBODY}', '-o', 'json'])"
    )
    assert not loaded.intersection(HEAVY)
