"""Rules of our own that no linter has.  A failure names the place and the better way.

A line that has good reason to break one says so: `# rule-ok: the reason`.
"""

import ast
import os
import re
import shlex
import shutil
import subprocess
import sysconfig
from collections.abc import Callable, Container, Iterator
from functools import cache
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from litestar.di import Provide

from goqueue import _version
from goqueue.model.config import HttpConfig
from goqueue.server.http.asgi.app import create_app
from goqueue.server.http.openapi.document import ApiDocument
from tools import sync_client

ROOT = Path(__file__).parents[2]
EXCUSE = re.compile(r"#\s*rule-ok:\s*\S")

# Paths that exist on one machine only.  They start there: `/queues/work/ack` is not one.
MACHINE_PATH = re.compile(r"(?<![\w.}>*-])/(work|root|home/\w+|Users/\w+)/")
INDEX_CHOICE = re.compile(r"--(extra-)?index-url|--find-links|--trusted-host")

# Modules whose business it is to make tasks.
TASK_MAKERS = {ROOT / "src/goqueue/testing/sim/loop.py"}  # an event loop itself

# Who looks at a machine that is ahead of its log (`MachineHost.ahead`), and why that is committed
# before it reaches a reply.  Folders stand for their files.
AHEAD = {
    "broker/coordinators.py": "the start, before anybody asks",
    "broker/startup.py": "the start, before anybody asks",
    "broker/groups/coordinator.py": "wake-ups and sessions; what it gives on says that it is ahead",
    "broker/groups/http_members.py": "its verbs end with a barrier",
    "broker/queues": "what is delivered or settled waits for its own records; admin has a barrier",
    "broker/delays": "what is shown is settled, or decided again; the rest is wake-ups",
    "broker/schedules": "a run is planned, in the log, before anything is done for it",
    "broker/dlq": "letters are moved when their ledgers are settled",
    "broker/transactions": "verbs wait for what is decided about their id; refusals are settled",
    "broker/messages/transactional_publish.py": "its refusals are settled",
    "server/kafka/group_offsets.py": "a barrier around the whole request",
    "server/kafka/transaction_admin.py": "a barrier around the whole request",
    "server/kafka/transactions.py": "what is verified is settled",
    "server/http/routes/coordinators.py": "sizes, which are nobody's state",
    "server/http/routes/transactions.py": "barriers; the statistics are nobody's state",
    "server/http/routes/application_transactions.py": "a barrier; the next run is decided again",
    "server/group_lag.py": "metrics",
    "server/metrics.py": "metrics",
    "server/schedule_metrics.py": "metrics",
}

# Import cycles that are still there, each as its modules.  The list may only get shorter.
KNOWN_CYCLES: list[set[str]] = []

# What other packages may import of these beside the package itself: modules that are read whole, by
# their own name (`framed.store`, `errors`).  A package that is not listed here is open, and
# docs/adr/0027 says why.  Of the broker, these are what listeners call and hold, family by family;
# docs/adr/0036 says why they are modules.
FACES = {
    "broker": {
        "cluster.coordinator_topics",
        "cluster.events",
        "cluster.forwarding",
        "cluster.handshake",
        "cluster.log_sizes",
        "cluster.other_nodes",
        "cluster.peer",
        "cluster.reassignments",
        "delays.admin",
        "delays.statistics",
        "dlq.browse",
        "dlq.redrive_jobs",
        "dlq.writer",
        "doctor.examination",
        "groups.admin",
        "groups.http_members",
        "groups.http_requests",
        "groups.http_sessions",
        "long_poll",
        "messages.fetch",
        "messages.follower_reads",
        "messages.idempotency",
        "messages.merged_reader",
        "messages.outgoing",
        "messages.publish",
        "messages.read",
        "messages.remote_partition",
        "messages.transactional_publish",
        "queues.acknowledgement",
        "queues.admin",
        "queues.ledgers",
        "queues.members",
        "queues.overview",
        "queues.receive",
        "queues.receive_request",
        "queues.service",
        "queues.stats",
        "quotas",
        "tenants",
        "replicas",
        "schedules.term",
        "schemas.service",
        "schemas.statistics",
        "security.audit",
        "security.audit_reader",
        "security.permissions",
        "security.users",
        "shares.acquire",
        "shares.sessions",
        "storage.backups",
        "storage.bundle",
        "storage.partition_store",
        "traces.requester",
        "traces.service",
        "transactions.acks",
        "transactions.coordinator",
    },
    "cli": {"main"},
    "client": {
        "errors",
        "http.calls.groups",
        "http.calls.queues",
        "http.calls.topics",
        "http.calls.transactions",
        "kafka",
    },
    "cluster": {
        "balance",
        "consensus",
        "consensus.etcd",  # it imports an HTTP client, for those who use it
        "controller",
        "errors",
        "events",
        "features",
        "health",
        "metadata",
        "replication",
        "throttles",
    },
    "groups": {"embedded", "errors"},
    "log": {"checkpoint", "compaction", "epochs", "framed", "segment", "truncation"},
    "queue": {"dead_letter", "errors", "header_fields", "lanes", "ranges", "receipts"},
    "runtime": {"handles", "heap", "lock", "service_manager", "tasks"},
    "server": set[str](),
    "spark": {
        "pipelines.comparing",
        "pipelines.state",
        "service.board",
        "service.job",
        "service.tables",
        "source.source",  # where Spark finds the format
    },
    "txn": {"errors"},
}
# Modules that others still import past these.  The lists may only get shorter.
KNOWN_ENTRIES: dict[str, set[str]] = {
    "cli": {"configuration", "logs"},
    "client": {"http.messages"},
    "spark": {
        "archive.job",
        "archive.options",
        "compaction.job",
        "dlq.job",
        "lake.upkeep",
        "pipelines.describing",
        "pipelines.exporting",
        "pipelines.frames",
        "pipelines.job",
        "pipelines.places",
        "pipelines.reading",
        "pipelines.tree",
        "replay.job",
        "replay.options",
        "journeys.job",
        "journeys.options",
        "report.job",
        "report.options",
        "runtime.job_runner",
        "runtime.progress",
        "sql.job",
        "sql.live_query",
        "sql.rows",
    },
}

# A function that is named by a past participle, alone or with a word that leaves it one.  Before a
# noun it is an adjective: `committed_offsets`.
PARTICIPLE = re.compile(
    r"_*(?!(?:embed|exceed|feed|need|proceed|seed|shed|speed|succeed)(?:_|$))"
    r"(?:[a-z]{2,}ed|begun|broken|brought|built|caught|chosen|done|drawn|driven|fed|found|given|gone"
    r"|held|hidden|kept|known|laid|led|lost|made|meant|met|paid|seen|sent|shown|spent|taken|taught"
    r"|thrown|told|torn|woken|worn|written)"
    r"(?:_(?:after|again|as|at|back|before|by|for|from|here|in|into|of|off|often|on|once|only|or|out"
    r"|over|since|to|under|until|up|with|within|without)(?:_\w+)?)?"
)
# Functions that are named by a participle all the same, and why.
PARTICIPLES_ALLOWED = {"embedding.embedded": "`with goqueue.embedded() as broker` is published"}

# Modules without a unit test file of their own, and why.  Every other module of these packages has
# one: queue/lease.py has tests/unit/queue/test_lease.py.
DATA = "data only: whoever makes it or reads it is tested"
GENERATED = "generated from the asynchronous module, which is tested"
INTERFACE = "an interface only: whoever keeps it is tested"
WITHOUT_TEST_FILE: dict[str, dict[str, str]] = {
    "broker": {
        "cluster.services": INTERFACE,
        "groups.http_requests": DATA,
        "groups.services": INTERFACE,
        "messages.outgoing": DATA,
        "journal": INTERFACE,
        "services": INTERFACE,
    },
    "cli": {},
    "client": {
        "http.results": DATA,
        "http.schedules": GENERATED,
        "http.traces": GENERATED,
        "http.transactions": GENERATED,
        "kafka.results": DATA,
    },
    "groups": {"config": DATA, "errors": DATA, "replies": DATA},
    "queue": {"errors": DATA, "replies": DATA},
}
# Modules that are to have one.  The lists may only get shorter.
KNOWN_WITHOUT_TEST_FILE: dict[str, set[str]] = {
    "broker": set(),
    "cli": set(),
    "client": set(),
    "groups": set(),
    "queue": set(),
}

Place = tuple[Path, int]
Rule = Callable[[Path, ast.AST], Iterator[int]]


# --- rules over Python files --------------------------------------------------------------------


def test_every_task_has_an_owner():
    """A task without one outlives its work, and its exception is seen by nobody."""
    assert_nowhere(
        _ownerless_task,
        [path for path in python_files("src") if path not in TASK_MAKERS],
        "start it in an asyncio.TaskGroup that its owner closes: group.create_task(...)",
    )


def test_no_error_is_swallowed_unseen():
    assert_nowhere(
        _swallowed_error,
        python_files("src", "tests"),
        "catch the narrow error that is expected, or log the broad one and close what it broke",
    )


def test_tests_do_not_sleep():
    assert_nowhere(
        _sleep,
        python_files("tests"),
        "move a fake clock, wait for the event itself, or ask for the `eventually` fixture",
    )


def test_only_the_command_line_prints():
    assert_nowhere(
        _print,
        [path for path in python_files("src") if "cli" not in path.parts],
        'return it, or tell it to the log: log.info("leader elected", epoch=epoch)',
    )


def test_replies_are_not_read_ahead_of_the_log():
    """A power cut could take back what was told; see docs/adr/0013."""
    allowed = [ROOT / "src/goqueue" / each for each in AHEAD]
    users = [
        path
        for path in python_files("src")
        if any(True for node in ast.walk(parse(path)) for _ in _look_ahead(path, node))
    ]
    assert_nowhere(
        _look_ahead,
        [path for path in users if not any(path.is_relative_to(each) for each in allowed)],
        "`await host.read(look)`, or `async with barrier:`; for what reaches no reply, AHEAD above",
    )
    unused = [each for each in allowed if not any(path.is_relative_to(each) for path in users)]
    assert not unused, f"take from AHEAD who does not look ahead: {unused}"


def test_functions_are_verbs():
    """A past participle names a record or a flag: `Leased`, `is_committed`."""
    found = {
        f"{module_name(path).removeprefix('goqueue.')}.{node.name}": (path, node.lineno)
        for path in python_files("src")
        for node in ast.walk(parse(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and PARTICIPLE.fullmatch(node.name)
        and not any("property" in ast.unparse(each) for each in node.decorator_list)
        and not EXCUSE.search(lines(path)[node.lineno - 1])
    }
    excused = PARTICIPLES_ALLOWED.keys()
    more = [place for name, place in found.items() if name not in excused]
    assert not more, message(more, "say what the function does: `merge`, `find_leased`, `wait_…`")
    gone = sorted(excused - found.keys())
    assert not gone, f"take from PARTICIPLES_ALLOWED: {gone}"


def _look_ahead(path: Path, node: ast.AST) -> Iterator[int]:
    match node:
        case ast.Attribute(attr="ahead", ctx=ast.Load()):
            yield node.lineno
        case _:
            pass


def _ownerless_task(path: Path, node: ast.AST) -> Iterator[int]:
    match node:
        case ast.Call(func=ast.Name(id="create_task" | "ensure_future")):
            yield node.lineno
        case ast.Call(func=ast.Attribute(attr="ensure_future")):
            yield node.lineno
        case ast.Call(func=ast.Attribute(attr="create_task", value=owner)):
            if re.search(r"asyncio|loop", ast.unparse(owner)):
                yield node.lineno
        case _:
            pass


def _swallowed_error(path: Path, node: ast.AST) -> Iterator[int]:
    match node:
        case ast.ExceptHandler(type=caught, body=body) if _is_broad(caught):
            if all(
                isinstance(each, ast.Pass | ast.Continue) or _is_ellipsis(each) for each in body
            ):
                yield node.lineno
        case ast.Call(func=ast.Name(id="suppress") | ast.Attribute(attr="suppress"), args=args):
            if any(_is_broad(each) for each in args):
                yield node.lineno
        case _:
            pass


def _is_broad(caught: ast.expr | None) -> bool:
    match caught:
        case None | ast.Name(id="Exception" | "BaseException"):
            return True
        case ast.Tuple(elts=each):
            return any(_is_broad(one) for one in each)
        case _:
            return False


def _is_ellipsis(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and ast.unparse(statement) == "..."


def _sleep(path: Path, node: ast.AST) -> Iterator[int]:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="time"), attr="sleep")):
            yield node.lineno
        case ast.ImportFrom(module="time", names=names) if any(n.name == "sleep" for n in names):
            yield node.lineno
        case _:
            pass


def _print(path: Path, node: ast.AST) -> Iterator[int]:
    match node:
        case ast.Call(func=ast.Name(id="print" | "pprint")):
            yield node.lineno
        case _:
            pass


# --- imports of modules ---------------------------------------------------------------------------


def test_modules_import_each_other_in_no_cycle():
    """Imports under TYPE_CHECKING and inside functions count: a reader has to follow them, too."""
    cycles = import_cycles(imports_of(python_files("src", "bench", "demo")))
    grown = [cycle for cycle in cycles if not any(cycle <= known for known in KNOWN_CYCLES)]
    assert not grown, (
        "the better way: hand in the smaller thing, or move what both need to a module of its own\n"
        + "\n".join("  " + ", ".join(sorted(cycle)) for cycle in grown)
    )
    gone = [known for known in KNOWN_CYCLES if not any(cycle <= known for cycle in cycles)]
    assert not gone, f"take from KNOWN_CYCLES what is gone: {gone}"


@pytest.mark.parametrize("package", FACES)
def test_a_package_is_entered_by_its_face(package: str):
    """What else is in it can be changed without a look at the rest."""
    found = entries(package, imports_in_source())
    known = KNOWN_ENTRIES.get(package, set())
    more = sorted(found - known - FACES[package])
    assert not more, (
        f"the better way: list the name in goqueue/{package}/__init__.py and import it from there,"
        f" or list a module that others use whole in FACES; others import {', '.join(more)}"
    )
    gone = sorted((known | FACES[package]) - found)
    assert not gone, f"take from FACES and KNOWN_ENTRIES what nobody imports: {gone}"


@cache
def imports_in_source() -> dict[str, set[str]]:
    return imports_of(python_files("src"))


def entries(package: str, imports: dict[str, set[str]]) -> set[str]:
    """The modules of a package that are imported from outside of it."""
    inside = f"goqueue.{package}"
    return {
        name.removeprefix(f"{inside}.")
        for importer, names in imports.items()
        if not f"{importer}.".startswith(f"{inside}.")
        for name in names
        if name.startswith(f"{inside}.")
    }


def imports_of(paths: list[Path]) -> dict[str, set[str]]:
    """What each module imports of the others."""
    modules = {module_name(path): path for path in paths}
    return {
        name: set(_find_imports(parse(path), modules)) - {name} for name, path in modules.items()
    }


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part not in ("src", "__init__"))


def _find_imports(tree: ast.Module, modules: Container[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names if each.name in modules)
            case ast.ImportFrom(module=str(package), names=names, level=0):
                for each in names:
                    name = f"{package}.{each.name}"
                    if name in modules or package in modules:
                        yield name if name in modules else package
            case _:
                pass


def import_cycles(imports: dict[str, set[str]]) -> list[set[str]]:
    """Sets of modules that all reach each other."""
    imports = _without_leaves(imports)
    reached = {name: _reach(name, imports) for name in imports}
    cycles: list[set[str]] = []
    for name in imports:
        if name in reached[name] and not any(name in cycle for cycle in cycles):
            cycles.append({other for other in reached[name] if name in reached[other]})
    return cycles


def _without_leaves(imports: dict[str, set[str]]) -> dict[str, set[str]]:
    """Most modules are in no cycle; without them there are few to search."""
    while leaves := {name for name, others in imports.items() if not others}:
        imports = {name: others - leaves for name, others in imports.items() if name not in leaves}
    return imports


def _reach(start: str, imports: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    ahead = list(imports[start])
    while ahead:
        name = ahead.pop()
        if name not in seen:
            seen.add(name)
            ahead.extend(imports[name])
    return seen


# --- tests of modules -----------------------------------------------------------------------------


@pytest.mark.parametrize("package", WITHOUT_TEST_FILE)
def test_a_module_has_its_tests_where_a_reader_looks_for_them(package: str):
    expected = unit_test_files(package)
    excused = WITHOUT_TEST_FILE[package].keys() | KNOWN_WITHOUT_TEST_FILE[package]
    missing = {name for name, path in expected.items() if not path.exists()}
    more = [str(expected[name].relative_to(ROOT)) for name in sorted(missing - excused)]
    assert not more, f"the better way: move or write the modules' tests to {', '.join(more)}"
    gone = sorted(excused - missing)
    assert not gone, f"take from WITHOUT_TEST_FILE and KNOWN_WITHOUT_TEST_FILE: {gone}"


def unit_test_files(package: str) -> dict[str, Path]:
    """Each module of a package, without the package's name, and where its tests belong."""
    source, tests = ROOT / "src/goqueue" / package, ROOT / "tests/unit" / package
    return {
        ".".join(inside.with_suffix("").parts): tests / inside.with_name(f"test_{inside.name}")
        for path in python_files(f"src/goqueue/{package}")
        if path.name != "__init__.py"
        for inside in [path.relative_to(source)]
    }


# --- what is made of all modules ------------------------------------------------------------------


def test_the_api_document_can_be_made():
    """Two routes of one operation id are seen here, not by the server's first caller."""
    app = create_app(
        *(MagicMock(started_at=0), HttpConfig(), MagicMock(), MagicMock(), MagicMock(), MagicMock())
    )
    provided = app.dependencies["document"]
    assert isinstance(provided, Provide)
    document: ApiDocument = provided.dependency()
    operations = [
        operation["operationId"]
        for methods in document.content["paths"].values()
        for operation in methods.values()
    ]
    assert sorted(set(operations)) == sorted(operations)
    assert len(operations) > 100


# --- rules over all files -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "better"),
    [
        pytest.param(
            MACHINE_PATH,
            "a path relative to the project, the package or tmp_path",
            id="no-machine-paths",
        ),
        pytest.param(
            INDEX_CHOICE,
            "plain `pip install`: where packages come from is the machine's own setting",
            id="no-package-index",
        ),
    ],
)
def test_files_speak_of_no_one_machine(pattern: re.Pattern[str], better: str):
    found = [
        (path, number)
        for path in project_files()
        for number, line in enumerate(lines(path), start=1)
        if path != Path(__file__) and pattern.search(line) and not EXCUSE.search(line)
    ]
    assert not found, message(found, better)


def test_hot_modules_exist():
    """setup.py compiles them; a renamed file would quietly run interpreted."""
    missing = [
        name
        for name in hot_modules()
        if not (ROOT / "src" / name.replace(".", "/")).with_suffix(".py").exists()
    ]
    assert not missing, f"HOT_MODULES in setup.py names {missing}, which src/ does not have"


def test_hot_modules_are_compiled_where_they_can_be():
    """An install does without a compiler; a change that breaks compiling must not pass for that."""
    if Path(_version.__file__).is_relative_to(ROOT / "src"):
        pytest.skip("src/ is never compiled")
    if os.environ.get("GOQUEUE_COMPILE") == "0" or not c_compiler_works():
        pytest.skip("nothing is compiled here")
    assert set(_version.compiled_modules()) == hot_modules(), (
        "make prints, at install, why a module stays interpreted"
    )


def test_generated_modules_are_current():
    stale = [path.name for path, text in sync_client.generate() if path.read_text() != text]
    assert not stale, f"{', '.join(stale)}: change the asynchronous module, then run make generate"


def hot_modules() -> set[str]:
    tree = ast.parse((ROOT / "setup.py").read_text())
    (names,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "HOT_MODULES"
    )
    return set(names)


def c_compiler_works() -> bool:
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run([*command, "--version"], capture_output=True, check=False).returncode == 0


# --- the rules are tested too -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "source", "broken"),
    [
        (_ownerless_task, "asyncio.create_task(work())", True),
        (_ownerless_task, "asyncio.get_running_loop().create_task(work())", True),
        (_ownerless_task, "self._loop.create_task(work())", True),
        (_ownerless_task, "ensure_future(work())", True),
        (_ownerless_task, "group.create_task(work())", False),
        (_swallowed_error, "try: work()\nexcept Exception: pass", True),
        (_swallowed_error, "try: work()\nexcept (ValueError, Exception): ...", True),
        (_swallowed_error, "with contextlib.suppress(Exception): work()", True),
        (_swallowed_error, "try: work()\nexcept FileNotFoundError: pass", False),
        (_swallowed_error, "try: work()\nexcept Exception: log.exception('failed')", False),
        (_sleep, "time.sleep(1)", True),
        (_sleep, "from time import sleep", True),
        (_sleep, "clock.sleep(1)", False),
        (_print, "print('hello')", True),
        (_print, "console.print('hello')", False),
    ],
)
def test_a_rule_finds_what_it_forbids_and_nothing_else(rule: Rule, source: str, broken: bool):
    hits = [line for node in ast.walk(ast.parse(source)) for line in rule(ROOT, node)]
    assert bool(hits) is broken


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("merged", True),
        ("_led_by", True),
        ("written", True),
        ("merge", False),
        ("committed_offsets", False),
        ("feed", False),
        ("onQueryStarted", False),
    ],
)
def test_a_participle_is_told_from_a_verb(name: str, is_one: bool):
    assert bool(PARTICIPLE.fullmatch(name)) is is_one


def test_a_cycle_is_found_whole_and_once():
    imports = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set(), "e": {"a"}}
    assert import_cycles(imports) == [{"a", "b", "c"}]


@pytest.mark.parametrize(
    ("line", "broken"),
    [
        ("cd /work/project", True),
        ("open('/home/ada/notes')", True),
        ("POST /queues/work/ack", False),
        ("https://example.org/root/page", False),
    ],
)
def test_a_machine_path_is_told_from_a_url(line: str, broken: bool):
    assert bool(MACHINE_PATH.search(line)) is broken


# --- reading the project ------------------------------------------------------------------------


def assert_nowhere(rule: Rule, paths: list[Path], better: str) -> None:
    found = [
        (path, line)
        for path in paths
        for node in ast.walk(parse(path))
        for line in rule(path, node)
        if not EXCUSE.search(lines(path)[line - 1])
    ]
    assert not found, message(found, better)


def message(found: list[Place], better: str) -> str:
    places = "\n".join(f"  {path.relative_to(ROOT)}:{line}" for path, line in found)
    return f"the better way: {better}\n{places}"


def python_files(*folders: str) -> list[Path]:
    roots = [ROOT / folder for folder in folders]
    return [
        path
        for path in project_files()
        if path.suffix == ".py" and any(path.is_relative_to(root) for root in roots)
    ]


@cache
def project_files() -> tuple[Path, ...]:
    """What is tracked or would be: git decides, so that build products are left out."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listing.returncode:
        pytest.skip("the rules read the list of files from git, and this is no git checkout")
    paths = (ROOT / name for name in listing.stdout.decode().split("\0") if name)
    return tuple(sorted(path for path in paths if path.is_file()))


@cache
def lines(path: Path) -> tuple[str, ...]:
    try:
        return tuple(path.read_text(encoding="utf-8").splitlines())
    except UnicodeDecodeError:  # a picture, or captured bytes
        return ()


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
