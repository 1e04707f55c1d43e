"""Bytes that real clients sent, and what they meant by them.

Captured from a socket that answered ApiVersions and nothing else.  The four bytes of the frame's
size are left out.
"""

from typing import Any

import pytest
from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.api_versions.v4.response import ApiVersion, ApiVersionsResponse
from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic

from goqueue.wire.apis import ApiKey
from goqueue.wire.frames import encode_frame, parse_header
from goqueue.wire.messages import build, decode_request, encode_response

# confluent-kafka 2.16.1 (librdkafka 2.16.0), kafka-python 3.0.12, aiokafka 0.14.0
GOLDEN = [
    pytest.param(
        "00120003 00000001 0006 676f6c64656e 00"
        "17 636f6e666c75656e742d6b61666b612d707974686f6e"
        "16 322e31362e312d72646b61666b612d322e31362e30 00",
        3,
        build(
            ApiVersionsRequest,
            client_software_name="confluent-kafka-python",
            client_software_version="2.16.1-rdkafka-2.16.0",
        ),
        id="confluent-kafka asks for versions",
    ),
    pytest.param(
        "0003000d 00000002 0006 676f6c64656e 00"
        "02 00000000000000000000000000000000 07 6f7264657273 00 01 00 00",
        13,
        build(
            MetadataRequest,
            topics=(build(MetadataRequestTopic, name="orders"),),
            allow_auto_topic_creation=True,
        ),
        id="confluent-kafka asks for one topic",
    ),
    pytest.param(
        "00120004 00000001 0006 676f6c64656e 000d 6b61666b612d707974686f6e 07 332e302e3132 00",
        4,
        build(
            ApiVersionsRequest,
            client_software_name="kafka-python",
            client_software_version="3.0.12",
        ),
        id="kafka-python asks for versions",
    ),
    pytest.param(
        "0003000d 00000002 0006 676f6c64656e 00 01 01 00 00",
        13,
        build(MetadataRequest, topics=(), allow_auto_topic_creation=True),
        id="kafka-python asks for brokers and no topic",
    ),
    pytest.param(
        "00120000 00000001 0006 676f6c64656e",
        0,
        build(ApiVersionsRequest),
        id="aiokafka asks for versions",
    ),
    pytest.param(
        "00030005 00000002 0006 676f6c64656e 00000000 01",
        5,
        build(MetadataRequest, topics=(), allow_auto_topic_creation=True),
        id="aiokafka asks for brokers and no topic",
    ),
]


@pytest.mark.parametrize(("captured", "version", "expected"), GOLDEN)
def test_a_captured_request_means_what_the_client_meant(captured: str, version: int, expected: Any):
    header = parse_header(memoryview(bytes.fromhex(captured)))
    assert header.client_id == "golden"
    assert header.api_version == version
    assert decode_request(header.api_key, header.api_version, header.body) == expected


def test_the_refusal_of_an_unknown_version_of_api_versions_is_readable_by_all():
    """Error 35 and the ranges, in version 0, behind a header without tagged fields."""
    produce = build(ApiVersion, api_key=0, min_version=0, max_version=13)
    response = build(ApiVersionsResponse, error_code=35, api_keys=(produce,))
    body = encode_response(ApiKey.API_VERSIONS, 0, response)
    frame = b"".join(encode_frame(1, False, [body]))
    assert frame == bytes.fromhex("00000010 00000001 0023 00000001 0000 0000 000d")


def test_the_answer_of_api_versions_v3_has_a_plain_header_and_a_compact_body():
    produce = build(ApiVersion, api_key=0, min_version=0, max_version=13)
    body = encode_response(ApiKey.API_VERSIONS, 3, build(ApiVersionsResponse, api_keys=(produce,)))
    assert body == bytes.fromhex("0000 02 0000 0000 000d 00 00000000 00")
