"""A client generated from the API document publishes and reads.

Needs openapi-python-client (`pip install openapi-python-client`), which is in no extra: it brings
tools of its own in versions of its own.
"""

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.conformance.http_server import http_server

PROGRAM = """
import sys
from go_queue_client import Client, models
from go_queue_client.api.messages import publish, read_topic
from go_queue_client.api.queues import ack, receive
from go_queue_client.api.topics import create_topic

client = Client(sys.argv[1])
create_topic.sync(client=client, body=models.CreateTopic(name="orders", partitions=1))
messages = [models.MessageInput(value="one", key="k"), models.MessageInput(value={"n": 2})]
published = publish.sync(
    client=client, topic="orders", body=models.PublishRequest(messages=messages),
    idempotency_key="once",
)
read = read_topic.sync(client=client, topic="orders")
body = models.ReceiveMessages(group="billing")
received = receive.sync(client=client, topic="orders", body=body)
for message in received.messages:
    ack.sync(client=client, body=models.Ack(receipt_handle=message.receipt_handle))
print([each.offset for each in published.results], [each.value for each in read.messages])
"""


@pytest.mark.slow
def test_a_generated_client_publishes_reads_and_acks(tmp_path: Path):
    pytest.importorskip("openapi_python_client")
    with http_server(tmp_path / "server") as (_, host, port):
        url = f"http://{host}:{port}"
        document = tmp_path / "openapi.json"
        document.write_bytes(httpx.get(f"{url}/openapi.json", timeout=60).content)
        generate = ["generate", "--meta", "none", "--path", str(document)]
        output = ["--output-path", str(tmp_path / "go_queue_client")]
        command = [sys.executable, "-m", "openapi_python_client", *generate, *output]
        made = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "unsupported" not in (made.stdout + made.stderr).lower()
        command = [sys.executable, "-c", PROGRAM, url]
        used = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert used.stdout == "[0, 1] ['one', '{\"n\":2}']\n", used.stderr
        held = httpx.get(f"{url}/groups/billing/in-flight").json()
        assert held["messages"] == []
