"""ApiVersions: which requests this listener answers."""

from typing import Final

from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.api_versions.v4.response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kio.schema.errors import ErrorCode

from goqueue.server.kafka.context import Context
from goqueue.wire.apis import ApiKey, advertised_versions
from goqueue.wire.messages import build, encode_response

# Newer clients look here for what no API version tells.
FEATURES: Final = {
    "group.version": 1,  # the consumer protocol of KIP-848
    "share.version": 1,  # share groups, KIP-932
    "transaction.version": 2,  # KIP-890: an epoch for each transaction, Produce adds partitions
}


def _served() -> list[ApiVersion]:
    from goqueue.server.kafka.handlers import HANDLERS  # the table holds this module's handler

    served = sorted({ApiKey.PRODUCE, ApiKey.FETCH, *HANDLERS})
    found = []
    for key in served:
        versions = advertised_versions(key)
        entry = build(ApiVersion, api_key=key, min_version=versions.min, max_version=versions.max)
        found.append(entry)
    return found


async def handle_api_versions(context: Context, request: ApiVersionsRequest) -> ApiVersionsResponse:
    return build(
        ApiVersionsResponse,
        api_keys=tuple(_served()),
        supported_features=tuple(
            build(SupportedFeatureKey, name=name, min_version=1, max_version=version)
            for name, version in FEATURES.items()
        ),
        finalized_features_epoch=0,
        finalized_features=tuple(
            build(FinalizedFeatureKey, name=name, min_version_level=1, max_version_level=version)
            for name, version in FEATURES.items()
        ),
    )


def refuse_api_versions() -> bytes:
    """The reply to a version we do not speak: version 0, which every client can read."""
    response = build(
        ApiVersionsResponse,
        error_code=ErrorCode.unsupported_version,
        api_keys=tuple(_served()),
    )
    return encode_response(ApiKey.API_VERSIONS, 0, response)
