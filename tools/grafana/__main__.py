"""Write `deploy/grafana`: one file for each dashboard."""

from pathlib import Path
from typing import Final

from tools.grafana.dashboards import DASHBOARDS

TARGET: Final = Path(__file__).parents[2] / "deploy" / "grafana"


def files() -> dict[str, str]:
    return {f"{each.uid}.json": each.text() for each in DASHBOARDS}


def main() -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (TARGET / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
