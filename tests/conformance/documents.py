"""The commands and programs of a page of the docs, as one script that runs them in their order.

Blocks of `bash`, `sh` and `python` are run whole; of `console`, the lines after `$`.  What a reader
does not see stands in a comment before the block:

    <!-- docs-test: skip, needs Spark -->        is not run; the reason is for readers of the page
    <!-- docs-test: needs kcat -->               is run where there is such a command
    <!-- docs-test: until TEXT -->               has no end: is stopped once it has printed this
    <!-- docs-test: during TEXT -->              the last command goes on until the page ends; the
                                                 next block begins once it has printed this
    <!-- docs-test: pytest -->                   is a test file
    <!-- docs-test: before                       runs before the block, in the same process
    def bill(order): ...
    -->
"""

import re
import shlex
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

BLOCK = re.compile(
    r"(?P<marks>(?:^<!-- docs-test: .*?-->\n)*)"
    r"^```(?P<language>bash|sh|console|python)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
MARK = re.compile(r"<!-- docs-test: (\w+),?\s*(.*?)\s*-->", re.DOTALL)
HTTP_ADDRESS = re.compile(r"(?:127\.0\.0\.1|localhost):8080")
KAFKA_ADDRESS = re.compile(r"(?:127\.0\.0\.1|localhost):9092")
OWN_PORTS = (8443, 9093)  # of a server that a page starts itself: free ones stand for them

# What the commands of a page find: curl that fails when it is refused, and servers on free ports.
SHIMS = {
    "curl": 'exec {curl} --fail-with-body "$@"',
    "python": 'exec {python} -P "$@"',
    "goqueue": """\
if [ "$1" = server ]; then
    shift
    case " $* " in *" --nodes "*) set -- "$@" --cluster-listen 127.0.0.1:0 ;; esac
    case " $* " in *" --http "*) ;; *) set -- "$@" --kafka 127.0.0.1:0 --http 127.0.0.1:0 ;; esac
    set -- server "$@" --data-dir "$(mktemp -d -p "$PWD")"
fi
exec {python} -P -m goqueue "$@"
""",
}
HEAD = """\
set -euo pipefail
until_printed() {  # TEXT COMMAND...: stops the command once it has printed the text
    local text=$1 output; shift
    output=$(mktemp -p "$PWD")
    "$@" > "$output" 2>&1 &
    local process=$!
    while ! grep -q -- "$text" "$output"; do
        if ! kill -0 $process 2> /dev/null; then
            cat "$output"; echo "ended without having printed: $text"; return 1
        fi
        sleep 0.1
    done
    cat "$output"
    kill $process  # not INT, which what bash starts in the background ignores
    wait $process || true
}
keep_running() {  # TEXT COMMAND...: comes back once it has printed the text, and lets it run
    local text=$1 output; shift
    output=$(mktemp -p "$PWD")
    "$@" > "$output" 2>&1 &
    local process=$!
    trap "kill $process; wait $process || true" EXIT
    while ! grep -q -- "$text" "$output"; do
        if ! kill -0 $process 2> /dev/null; then
            cat "$output"; echo "ended without having printed: $text"; return 1
        fi
        sleep 0.1
    done
}
"""


class Block(msgspec.Struct, frozen=True):
    line: int
    language: str
    code: str
    marks: dict[str, str]

    @property
    def is_run(self) -> bool:
        needs = self.marks.get("needs")
        return "skip" not in self.marks and (needs is None or shutil.which(needs) is not None)


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for found in BLOCK.finditer(text):
        line = text.count("\n", 0, found.start("code"))
        marks = dict(MARK.findall(found["marks"]))
        yield Block(line, found["language"], found["code"], marks)


def script(page: Path, http: str, kafka: str) -> str:
    """A bash script.  Before each block it says the block's line."""
    parts = [HEAD, *(_part(each) for each in blocks(page) if each.is_run)]
    text = HTTP_ADDRESS.sub(http, "\n".join(parts))
    for port in OWN_PORTS:
        text = text.replace(f":{port}", f":{_free_port()}")
    return KAFKA_ADDRESS.sub(kafka, text)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def _part(block: Block) -> str:
    said = f"echo '# line {block.line}'"
    if block.language != "python":
        code = _typed(block.code) if block.language == "console" else block.code
        if "until" in block.marks:
            code = f"until_printed {shlex.quote(block.marks['until'])} {code}"
        if "during" in block.marks:
            *first, last = re.split(r"(?<!\\)\n", code.strip())
            last = f"keep_running {shlex.quote(block.marks['during'])} {last}"
            code = "\n".join((*first, last))
        return "\n".join((said, block.marks.get("before", ""), code))
    name = f"test_line_{block.line}.py" if "pytest" in block.marks else f"line_{block.line}.py"
    run = f"python -u {name}"
    if "pytest" in block.marks:
        run = f"python -m pytest -q -p no:cacheprovider {name}"
    if "until" in block.marks:
        run = f"until_printed {shlex.quote(block.marks['until'])} {run}"
    code = "\n".join((block.marks.get("before", ""), block.code))
    return f"{said}\ncat > {name} <<'END_OF_BLOCK'\n{code}\nEND_OF_BLOCK\n{run}"


def _typed(session: str) -> str:
    """What stands after the prompt, with the lines that a backslash adds to it."""
    typed = []
    goes_on = False
    for line in session.splitlines():
        if line.startswith("$ ") or goes_on:
            typed.append(line.removeprefix("$ "))
            goes_on = line.endswith("\\")
    return "\n".join(typed)


def write_shims(directory: Path) -> None:
    commands = {"python": shlex.quote(sys.executable), "curl": shutil.which("curl")}
    directory.mkdir()
    for name, text in SHIMS.items():
        shim = directory / name
        for command, path in commands.items():
            text = text.replace(f"{{{command}}}", str(path))
        shim.write_text(f"#!/bin/bash\n{text}\n")
        shim.chmod(0o755)
