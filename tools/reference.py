"""Writes docs/reference/ from the code: `make docs`.  A rule of the project compares both.

Each page has one function below, which returns its text.
"""

import ast
import inspect
import tomllib
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import typer
from prometheus_client import generate_latest

import goqueue
from goqueue.cli.main import COMMANDS, app
from goqueue.model import config
from goqueue.model.errors import GoQueueError
from goqueue.model.settings import SETTINGS
from goqueue.queue.settings import QueueSettings
from goqueue.server.http.errors import STATUS
from goqueue.server.kafka.errors import KAFKA_CODE
from goqueue.spark.service.metrics import PipelineCollector

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = ROOT / "docs" / "reference"
NOTE: Final = "<!-- Written by `make docs` from the code: change it there. -->"


def main() -> None:
    PAGES.mkdir(exist_ok=True)
    for name, text in pages().items():
        (PAGES / name).write_text(text, encoding="utf-8")


class Page(msgspec.Struct, frozen=True):
    title: str
    intro: str
    lines: Callable[[], Iterable[str]]


def pages() -> dict[str, str]:
    """The text of each page by its file name."""
    return {name: _text(page) for name, page in _pages().items()}


def _text(page: Page) -> str:
    return "\n".join([f"# {page.title}", "", NOTE, "", page.intro, "", *page.lines()]) + "\n"


def _pages() -> dict[str, Page]:
    return {
        "configuration.md": Page(
            "Server configuration",
            "Settings come from a TOML file, from `GOQUEUE_…` environment variables and from flags"
            " of `goqueue server`;\nlater ones win. `goqueue server --print-config` shows the"
            " values and their sources. Settings marked *reload* can be\nchanged without a"
            " restart: edit the file and send SIGHUP.",
            _configuration,
        ),
        "topic-settings.md": Page(
            "Topic settings",
            "Set them with `goqueue topic create TOPIC --set NAME=VALUE`, over HTTP, or with"
            " Kafka's tools;\n`topics.settings` in the [server configuration](configuration.md)"
            " sets them for all topics. The names are Kafka's,\nexcept those that begin with"
            " `goqueue.`.",
            _topic_settings,
        ),
        "queue-settings.md": Page(
            "Queue settings",
            "Settings of a queue group. Set them with `goqueue queue settings --group GROUP --set"
            " NAME=VALUE`, or over HTTP.\nTimes are in milliseconds.",
            _queue_settings,
        ),
        "metrics.md": Page(
            "Metrics",
            "`GET /metrics` has these in the format of Prometheus, and those of the process"
            " (`process_…`).",
            _metrics,
        ),
        "errors.md": Page(
            "Error codes",
            'Over HTTP an error is `{"error": {"code": …, "message": …, "details": …}}`. Match on'
            " `code`, which does not change.\nA Kafka client gets the error code of Kafka's"
            " protocol. A *retriable* error may be gone at the next attempt.",
            _errors,
        ),
        "cli.md": Page(
            "Commands",
            "`goqueue COMMAND --help` shows the same texts. These options exist for every command"
            " that talks to a server:",
            _cli,
        ),
        "packages.md": Page(
            "Packages",
            "A package imports only from packages below it in this list. `make check` holds the"
            " order.",
            _packages,
        ),
    }


# --- settings -----------------------------------------------------------------------------------


def _configuration() -> Iterator[str]:
    yield from _section(config.Config, "")
    for field in msgspec.structs.fields(config.Config):
        if inspect.isclass(field.type) and issubclass(field.type, msgspec.Struct):
            yield from _section(field.type, field.name)


def _section(kind: type[msgspec.Struct], name: str) -> Iterator[str]:
    if name:
        yield from ("", f"## `[{name}]`", "")
    rows = []
    for field, text in field_texts(kind).items():
        path = f"{name}.{field}" if name else field
        reload = " *reload*" if path in config.RELOADABLE else ""
        rows.append((f"`{path}`", _value(getattr(kind(), field)), text + reload))
    yield from _table(("setting", "default", "meaning"), rows)


def _topic_settings() -> Iterator[str]:
    yield from _table(
        ("setting", "type", "default", "meaning"),
        (
            (f"`{each.name}`", each.kind, _value(each.default), each.meaning)
            for each in sorted(SETTINGS.values(), key=lambda each: each.name)
        ),
    )


def _queue_settings() -> Iterator[str]:
    texts = field_texts(QueueSettings)
    defaults = QueueSettings()
    yield from _table(
        ("setting", "default", "meaning"),
        ((f"`{name}`", _value(getattr(defaults, name)), texts[name]) for name in texts),
    )


def field_texts(kind: type[msgspec.Struct]) -> dict[str, str]:
    """The docstring below each field of a struct; fields without one are left out."""
    (body,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(body, ast.ClassDef)
    texts = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(words))),
            ):
                texts[name] = " ".join(words.split())
            case _:
                pass
    return texts


def _value(value: object) -> str:
    match value:
        case bool():
            return f"`{str(value).lower()}`"
        case int():
            return f"`{value}`"
        case float() | str():
            return f"`{value}`" if value != "" else "empty"
        case list() | tuple():
            return f"`{','.join(map(str, value))}`" if value else "empty"
        case frozenset():
            return _value(sorted(value))
        case _:
            return f"`{value}`" if value else "empty"


# --- metrics and errors ---------------------------------------------------------------------------


def _metrics() -> Iterator[str]:
    yield from _table(("metric", "type", "meaning"), _metric_rows(_scrape()))
    yield ""
    yield "`goqueue pipeline serve` has an endpoint of its own:"
    yield ""
    pipelines = generate_latest(PipelineCollector(lambda: ())).decode()
    yield from _table(("metric", "type", "meaning"), _metric_rows(pipelines))


def _scrape() -> str:
    with goqueue.embedded() as broker, urllib.request.urlopen(f"{broker.http}/metrics") as page:
        return str(page.read(), "utf-8")


def _metric_rows(text: str) -> list[tuple[str, str, str]]:
    meanings: dict[str, str] = {}
    kinds: dict[str, str] = {}
    for line in text.splitlines():
        match line.split(" ", 3):
            case ["#", "HELP", name, meaning]:
                meanings[name] = meaning
            case ["#", "TYPE", name, kind]:
                kinds[name] = kind
            case _:
                pass
    names = sorted(name for name in kinds if name.startswith("goqueue_"))
    return [(f"`{name}`", kinds[name], meanings[name]) for name in names]


def _errors() -> Iterator[str]:
    yield from _table(
        ("code", "HTTP status", "Kafka error", "retriable", "meaning"),
        sorted(set(_error_rows())),
    )


def _error_rows() -> Iterator[tuple[str, ...]]:
    for kind in {*STATUS, *KAFKA_CODE}:
        status = next((str(STATUS[each]) for each in kind.__mro__ if each in STATUS), "")
        kafka = next((KAFKA_CODE[each].name for each in kind.__mro__ if each in KAFKA_CODE), "")
        meaning = (kind.__doc__ or "").partition("\n")[0]
        if not kind.code.endswith("_error") and kind is not GoQueueError:  # bases
            retriable = "yes" if kind.retriable else ""
            yield f"`{kind.code}`", status, kafka.upper(), retriable, meaning


# --- commands -------------------------------------------------------------------------------------


def _cli() -> Iterator[str]:
    root: Any = typer.main.get_command(app)
    context = root.make_context("goqueue", [], resilient_parsing=True)
    everywhere = {each.name for each in root.params} - {"version"}  # the program's own
    yield from _table(("option", "meaning"), map(_option_row, root.params))
    for name in COMMANDS:
        yield from _command(f"goqueue {name}", root.get_command(context, name), everywhere)


def _command(path: str, command: Any, everywhere: set[str]) -> Iterator[str]:
    subcommands = getattr(command, "commands", None)
    if subcommands:
        yield from ("", f"## `{path}`", "", _plain(command.help))
        for name in subcommands:
            yield from _command(f"{path} {name}", subcommands[name], everywhere)
        return
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [
        each
        for each in command.params
        if each.param_type_name == "option" and each.name not in {*everywhere, "help"}
    ]
    required = [f"{each.opts[0]} {_metavar(each)}" for each in options if each.required]
    usage = " ".join([path, *map(_metavar, arguments), *required])
    yield from ("", f"### `{usage}`", "", _plain(command.help))
    if options or any(each.help for each in arguments):
        rows = [(f"`{_metavar(each)}`", _plain(each.help)) for each in arguments if each.help]
        yield from ("", *_table(("option", "meaning"), [*rows, *map(_option_row, options)]))


def _metavar(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _option_row(option: Any) -> tuple[str, str]:
    names = ", ".join(f"`{each}`" for each in (*option.opts, *option.secondary_opts))
    metavar = "" if option.is_flag else f" `{_metavar(option)}`"
    return names + metavar, _plain(option.help)


def _plain(text: str | None) -> str:
    """Help without the marks of rich and the line breaks of the source."""
    paragraphs = inspect.cleandoc(text or "").replace("\\[", "[").split("\n\n")
    return "\n\n".join(" ".join(each.split()) for each in paragraphs)


# --- packages -------------------------------------------------------------------------------------


def _packages() -> Iterator[str]:
    rows = []
    for layer in _layers():
        for name in layer:
            rows.append((f"`{name}`", _purpose(ROOT / "src" / "goqueue" / name)))
            inner = sorted((ROOT / "src" / "goqueue" / name).glob("*/__init__.py"))
            rows += [(f"`{name}/{each.parent.name}`", _purpose(each.parent)) for each in inner]
    yield from _table(("in `src/goqueue`", "purpose"), rows)


def _layers() -> Iterator[list[str]]:
    """The packages that exist, in the order of the import rules."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    (layers,) = (each["layers"] for each in contracts if each["id"] == "layers")
    for layer in layers:
        names = (
            layer.replace("(", " ").replace(")", " ").replace("|", " ").replace(":", " ").split()
        )
        source = ROOT / "src" / "goqueue"
        found = [
            each for each in names if (source / each).is_dir() or (source / f"{each}.py").exists()
        ]
        yield [each for each in found if not each.startswith("_")]


def _purpose(path: Path) -> str:
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split())


# --- tables ---------------------------------------------------------------------------------------


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield f"| {' | '.join(each.replace('|', chr(92) + '|') for each in row)} |"


if __name__ == "__main__":
    main()
