"""ApiVersions: which requests this listener answers."""

from collections.abc import Iterable, Mapping
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
FEATURES: Final = {  # the lowest and the highest level that this version can work with
    "group.version": (1, 1),  # the consumer protocol of KIP-848
    "metadata.version": (25, 25),  # 4.0-IV3: what Kafka's tools may take for granted of metadata
    "share.version": (1, 1),  # share groups, KIP-932
    "transaction.version": (1, 2),  # KIP-890: an epoch a transaction, Produce adds partitions
}


def level_of(name: str, finalized: Mapping[str, int]) -> int:
    """The level in use: the one that the nodes agreed on, or the highest if they never did."""
    return finalized.get(name, FEATURES[name][1])


def describe_api_versions(
    served: Iterable[ApiKey], finalized: Mapping[str, int]
) -> ApiVersionsResponse:
    """`finalized`: the levels that all nodes of the cluster agreed on."""
    return build(
        ApiVersionsResponse,
        api_keys=_versions_of(served),
        supported_features=tuple(
            build(SupportedFeatureKey, name=name, min_version=low, max_version=high)
            for name, (low, high) in FEATURES.items()
        ),
        finalized_features_epoch=sum(finalized.values()),  # levels only rise, so it does, too
        finalized_features=tuple(
            build(FinalizedFeatureKey, name=name, min_version_level=level, max_version_level=level)
            for name in FEATURES
            for level in (level_of(name, finalized),)
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
