"""Draws `pipeline.svg`: the terminal of a running pipeline, from the progress of a demo.

python -m demo --progress progress.jsonl
python docs/pictures/pipeline.py progress.jsonl
"""

import io
import json
import sys
from pathlib import Path

import msgspec
from rich.console import Console

from goqueue.cli.job_progress import picture
from goqueue.spark.runtime.progress import Progress

WIDTH = 92
COMMAND = "goqueue pipeline run demo/orders.yaml"


def main(progress: Path) -> None:
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print(f"[bold green]$[/] {COMMAND}\n", highlight=False)
    console.print(picture(busiest(progress)))
    out = Path(__file__).with_suffix(".svg")
    console.save_svg(str(out), title="goqueue pipeline run")


def busiest(progress: Path) -> list[Progress]:
    """The jobs at the moment when most rows a second went through."""
    now: dict[str, Progress] = {}
    moments = []
    for line in progress.read_text(encoding="utf-8").splitlines():
        job = msgspec.convert(json.loads(line), Progress)
        now[job.name] = job
        moments.append(list(now.values()))
    return max(moments, key=lambda jobs: sum(each.rows_per_second for each in jobs if each.lag))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
