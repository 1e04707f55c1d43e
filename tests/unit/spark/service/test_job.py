"""The service as a job: where its metrics cannot be served."""

import socket
from types import SimpleNamespace
from typing import Any

import pytest

from goqueue.model.config import Address
from goqueue.spark.service.job import CannotListen, _metrics


def test_an_address_that_somebody_has_is_told():
    service: Any = SimpleNamespace(standings=list)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address("127.0.0.1", taken.getsockname()[1])
        with (
            pytest.raises(CannotListen, match=f"no metrics at {address}"),
            _metrics(service, address),
        ):
            pass
