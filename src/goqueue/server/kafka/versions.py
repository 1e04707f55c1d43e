"""ApiVersions: which requests this listener answers."""

from collections.abc import Iterable
from typing import Final

from kio.schema.api_versions.v4.response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kio.schema.errors import ErrorCode

from goqueue.wire.apis import ApiKey, advertised_versions
from goqueue.wire.messages import build, encode_response

# Newer clients look here for what no API version tells.
FEATURES: Final = {  # the lowest and the highest level; the highest one is in use
    "group.version": (1, 1),  # the consumer protocol of KIP-848
    "metadata.version": (25, 25),  # 4.0-IV3: what Kafka's tools may take for granted of metadata
    "share.version": (1, 1),  # share groups, KIP-932
    "transaction.version": (1, 2),  # KIP-890: an epoch a transaction, Produce adds partitions
}


def describe_api_versions(served: Iterable[ApiKey]) -> ApiVersionsResponse:
    return build(
        ApiVersionsResponse,
        api_keys=_versions_of(served),
        supported_features=tuple(
            build(SupportedFeatureKey, name=name, min_version=low, max_version=high)
            for name, (low, high) in FEATURES.items()
        ),
        finalized_features_epoch=0,
        finalized_features=tuple(
            build(FinalizedFeatureKey, name=name, min_version_level=high, max_version_level=high)
            for name, (_, high) in FEATURES.items()
        ),
    )


def refuse_api_versions(served: Iterable[ApiKey]) -> bytes:
    """The reply to a version that is not supported: version 0, which every client can read."""
    response = build(
        ApiVersionsResponse,
        error_code=ErrorCode.unsupported_version,
        api_keys=_versions_of(served),
    )
    return encode_response(ApiKey.API_VERSIONS, 0, response)


def _versions_of(served: Iterable[ApiKey]) -> tuple[ApiVersion, ...]:
    ranges = [(key, advertised_versions(key)) for key in served]
    return tuple(
        build(ApiVersion, api_key=key, min_version=versions.min, max_version=versions.max)
        for key, versions in ranges
    )
