"""The API does what its document says, tried with requests made from the document."""

import contextlib
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import CHECKS, load_all_checks

from tests.conformance.http_server import http_server

load_all_checks()

# Of each operation, and as many that it must refuse; HYPOTHESIS_PROFILE=thorough: more.
EXAMPLES = settings().max_examples // 12

# A document cannot say that two fields exclude each other, or that a count must grow.
BEYOND_THE_DOCUMENT = {"positive_data_acceptance"}


ENDLESS = "/queues/{topic}/stream"  # its answer goes on until somebody leaves


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[schemathesis.BaseSchema]:
    with http_server(tmp_path_factory.mktemp("schema")) as (_, host, port):
        url = f"http://{host}:{port}"
        topic = {"name": "orders", "num_partitions": 2}
        assert httpx.post(f"{url}/topics", json=topic).status_code == 201
        found = schemathesis.openapi.from_url(f"{url}/openapi.json")
        yield found.exclude(path=ENDLESS)


@pytest.mark.timeout(600)  # many operations, each tried with many requests
def test_every_operation_answers_as_documented(
    schema: schemathesis.BaseSchema, subtests: pytest.Subtests
):
    checks = [check for check in CHECKS.get_all() if check.__name__ not in BEYOND_THE_DOCUMENT]
    operations: list[Any] = [found.ok() for found in schema.get_all_operations()]  # type: ignore[union-attr] # all are sound
    assert len(operations) > 15
    for operation in operations:
        with subtests.test(operation.label):
            try_out(operation, checks)


def try_out(operation: schemathesis.APIOperation, checks: list) -> None:
    for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):

        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(
            max_examples=EXAMPLES,
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        def conforms(case: schemathesis.Case) -> None:
            case.call_and_validate(checks=checks)

        with contextlib.suppress(Unsatisfiable):  # nothing can be wrong about a bare GET /health
            conforms()
