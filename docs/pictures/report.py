"""Makes `report.png`: the page of `goqueue pipeline report`, over an invented morning.

goqueue server --data-dir "$(mktemp -d)"                   # where the defaults are free
python docs/pictures/report.py http://localhost:8080      # needs the spark extra, and chromium
"""

import math
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from goqueue.client import Client, Message

MESSAGES = 40_000
MORNING_MS = 40 * 60 * 1000
CUSTOMERS = 60
DEAD = {"no such customer": 31, "amount is negative": 12}


def main(server: str) -> None:
    with Client(server) as client:
        publish(client)
        read_half_of_it(client)
        give_up_on_some(client)
    page = Path(tempfile.mkdtemp()) / "report"
    command = ["goqueue", "--server", server, "pipeline", "report", "orders"]
    command += ["--origin", "header:created-at", "--sla", "500ms", "--out", str(page)]
    subprocess.run(command, check=True)
    photograph(page / "index.html", Path(__file__).with_suffix(".png"))


def publish(client: Client) -> None:
    client.create_topic("orders", partitions=3)
    chance = random.Random(1)
    now = int(time.time() * 1000)
    moments = sorted(chance.betavariate(2, 2) for _ in range(MESSAGES))
    messages = []
    for moment in moments:
        customer = min(int(chance.expovariate(0.08)), CUSTOMERS)
        timestamp = now - MORNING_MS + int(moment * MORNING_MS)
        slow = 1 + 2 * math.exp(-(((moment - 0.6) / 0.05) ** 2))  # something was slow for a while
        created_at = timestamp - int(slow * chance.lognormvariate(3.6, 0.7))
        messages.append(
            Message(
                b'{"amount": %d}' % chance.randrange(10_000),
                key=f"customer-{customer}".encode(),
                headers=(("created-at", str(created_at).encode()),),
                timestamp=timestamp,
            )
        )
    for first in range(0, MESSAGES, 1000):
        client.publish("orders", messages[first : first + 1000])


def read_half_of_it(client: Client) -> None:
    for _ in range(MESSAGES // 2 // 1000):
        client.ack(*client.receive("orders", "billing", max_messages=1000))


def give_up_on_some(client: Client) -> None:
    for reason, count in DEAD.items():
        for message in client.receive("orders", "mail", max_messages=count):
            client.reject(message, reason=reason)


def photograph(page: Path, target: Path) -> None:
    options = ["--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=1100,1780"]
    subprocess.run(["chromium", *options, f"--screenshot={target}", page.as_uri()], check=True)


if __name__ == "__main__":
    main(sys.argv[1])
