"""An S3 server of our own: moto, in a thread, which keeps what it gets in memory."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

BUCKET = "lake"
KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}


@contextlib.contextmanager
def object_store() -> Iterator[str]:
    """Its URL; a bucket is there."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    assert server._server is not None
    server._server.app = put_in_turns(server._server.app)
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    ).create_bucket(Bucket=BUCKET)
    yield url
    server.stop()


def put_in_turns(app: Callable[..., Any]) -> Callable[..., Any]:
    """S3 decides about `If-None-Match` and writes in one step; moto does it in two."""
    turn = threading.Lock()

    def call(environ: dict[str, Any], start_response: Any) -> Any:
        if environ["REQUEST_METHOD"] != "PUT":
            return app(environ, start_response)
        with turn:
            return app(environ, start_response)

    return call


def point_to(patch: pytest.MonkeyPatch, url: str) -> None:
    """As a user does who keeps his lake there."""
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": url}.items():
        patch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL_S3", "HTTP_PROXY", "http_proxy"):
        patch.delenv(name, raising=False)
