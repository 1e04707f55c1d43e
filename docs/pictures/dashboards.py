"""Draws overview.svg, topics.svg, queues.svg and top.svg: dashboards over a broker at work.

python -m docs.pictures.dashboards          # from the root; fetches Prometheus if need be

A real Prometheus scrapes a real broker for a minute and a half.  Each panel of the dashboards shows
what its expressions give, in a drawing that resembles Grafana's.
"""

import contextlib
import io
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import msgspec
from rich.console import Console

from docs.pictures.panels import Curve, draw_panels
from goqueue.cli.top_figures import TopFigures
from goqueue.cli.top_screen import draw
from goqueue.client import Client, Message
from tools import prometheus
from tools.grafana.dashboards import DASHBOARDS
from tools.grafana.panels import Dashboard, Panel

HERE: Final = Path(__file__).parent
SECONDS: Final = 90
STEP_SECONDS: Final = 2
WINDOW: Final = "15s"
DRAWN: Final = ("goqueue-overview", "goqueue-topics", "goqueue-queues")
CURVES_MAX: Final = 6


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as place,
        running_broker(place) as (http, kafka),
        running_prometheus(place, http) as address,
    ):
        with ThreadPoolExecutor() as thread:
            looking = thread.submit(look, http)
            work(http, kafka)
            figures = looking.result()
        for board in DASHBOARDS:
            if board.uid in DRAWN:
                target = HERE / f"{board.uid.removeprefix('goqueue-')}.svg"
                target.write_text(picture(board, address), encoding="utf-8")
    console = Console(width=118, record=True, file=io.StringIO())
    console.print(draw(figures))
    console.save_svg(str(HERE / "top.svg"), title="goqueue top")


@contextlib.contextmanager
def running_broker(place: str) -> Iterator[tuple[str, str]]:
    command = [sys.executable, "-m", "goqueue", "server", "--data-dir", f"{place}/data"]
    command += ["--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if b"GoQueue is ready" in line:
                words = dict(each.split("=", 1) for each in line.decode().split() if "=" in each)
                break
        yield words["http"], words["kafka"]
    finally:
        process.terminate()
        process.wait(30)


@contextlib.contextmanager
def running_prometheus(place: str, http: str) -> Iterator[str]:
    settings = {
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [
            {
                "job_name": "goqueue",
                "static_configs": [{"targets": [http.removeprefix("http://")]}],
            }
        ],
    }
    file = Path(place, "prometheus.yml")
    file.write_text(json.dumps(settings))  # which is YAML, too
    port = 9000 + random.randrange(20_000)
    command = [str(prometheus.fetch("prometheus")), f"--config.file={file}"]
    command += [f"--storage.tsdb.path={place}/tsdb", f"--web.listen-address=127.0.0.1:{port}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


# --- load -----------------------------------------------------------------------------------------


def work(http: str, kafka: str) -> None:
    with Client(http) as client:
        client.create_topic("orders", partitions=3)
        client.create_topic("emails", partitions=1)
        client.create_topic("clicks", partitions=3)
    ends = time.monotonic() + SECONDS
    tasks = [
        threading.Thread(target=task, args=arguments)
        for task, arguments in (
            (publish, (http, "orders", ends)),
            (publish, (http, "emails", ends)),
            (serve, (http, "orders", "billing", 0.02, ends)),
            (serve, (http, "orders", "billing", 0.02, ends)),
            (serve, (http, "emails", "mailers", 0.15, ends)),
            (stream, (kafka, ends)),
            (read, (kafka, ends)),
        )
    ]
    for each in tasks:
        each.start()
    for each in tasks:
        each.join()


def publish(http: str, topic: str, ends: float) -> None:
    chance = random.Random(topic)
    with Client(http) as client:
        while time.monotonic() < ends:
            count = chance.randint(1, 12)
            priority = chance.choice(("normal", "normal", "high", "low"))
            delay = chance.choice((None, None, None, 400))
            client.publish(
                topic,
                [
                    Message(b'{"n": %d}' % n, priority=priority, delay_ms=delay)
                    for n in range(count)
                ],
            )
            time.sleep(chance.uniform(0.1, 0.4))


def serve(http: str, topic: str, group: str, seconds: float, ends: float) -> None:
    chance = random.Random(seconds)
    with Client(http) as client:
        while time.monotonic() < ends:
            messages = client.receive(topic, group, max_messages=10, wait_ms=500)
            time.sleep(seconds * len(messages))
            for each in messages:
                fate = chance.random()
                if fate < 0.9:
                    client.ack(each)
                elif fate < 0.97:
                    client.nack(each, reason="mail server busy")
                else:
                    client.reject(each, reason="no such address")


def stream(kafka: str, ends: float) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 20, "log_level": 0})
    began = time.monotonic()
    while time.monotonic() < ends:
        wave = 1 + ((time.monotonic() - began) % 45) / 15
        for number in range(int(200 * wave)):
            producer.produce("clicks", b"x" * 200, key=str(number))
        producer.poll(0)
        time.sleep(0.2)
    producer.flush(30)


def read(kafka: str, ends: float) -> None:
    from confluent_kafka import Consumer

    settings = {"bootstrap.servers": kafka, "group.id": "analytics", "client.id": "analytics-1"}
    settings |= {"auto.offset.reset": "earliest", "enable.auto.commit": "false", "log_level": "0"}
    consumer = Consumer(settings)
    consumer.subscribe(["clicks"])
    while time.monotonic() < ends:
        if consumer.consume(2_000, 0.5):
            time.sleep(0.3)
            consumer.commit(asynchronous=False)
    consumer.close()


# --- pictures -------------------------------------------------------------------------------------


def look(http: str) -> TopFigures:
    """In the middle of the work."""
    time.sleep(SECONDS / 2)
    command = [sys.executable, "-m", "goqueue", "--server", http, "top", "-n", "1", "-o", "json"]
    done = subprocess.run(command, check=True, capture_output=True)
    return msgspec.json.decode(done.stdout, type=TopFigures)


def picture(board: Dashboard, address: str) -> str:
    end = time.time()
    return draw_panels(board, {panel.title: curves(panel, address, end) for panel in board.panels})


def curves(panel: Panel, address: str, end: float) -> list[Curve]:
    found = [
        Curve(legend(query.legend, series["metric"]), points(series["values"]))
        for query in panel.queries
        for series in ask(address, query.expression, end)
    ]
    found.sort(key=lambda each: -max((value for _, value in each.points), default=0))
    return found[:CURVES_MAX]


def ask(address: str, expression: str, end: float) -> list[Any]:
    for variable in ("$topic", "$group", "$instance", "$query"):
        expression = expression.replace(variable, ".*")
    query = {
        "query": expression.replace("$__rate_interval", WINDOW),
        "start": end - SECONDS + 15,
        "end": end,
        "step": STEP_SECONDS,
    }
    url = f"{address}/api/v1/query_range?{urllib.parse.urlencode(query)}"
    with urllib.request.urlopen(url) as page:
        found: list[Any] = json.load(page)["data"]["result"]
    return found


def points(values: list[list[Any]]) -> list[tuple[float, float]]:
    return [(float(at), float(value)) for at, value in values if value not in ("NaN", "+Inf")]


def legend(pattern: str, labels: dict[str, str]) -> str:
    for name, value in labels.items():
        pattern = pattern.replace("{{" + name + "}}", value)
    return pattern


if __name__ == "__main__":
    main()
