"""ApiVersions: which requests this listener answers."""

from collections.abc import Iterable, Mapping

from kio.schema.api_versions.v4.response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kio.schema.errors import ErrorCode

from goqueue.cluster.features import FEATURES, level_in_use
from goqueue.wire.apis import ApiKey, advertised_versions
from goqueue.wire.messages import build, encode_response


def describe_api_versions(
    served: Iterable[ApiKey], finalized: Mapping[str, int]
) -> ApiVersionsResponse:
    """`finalized`: the levels that all nodes of the cluster agreed on."""
    return build(
        ApiVersionsResponse,
        api_keys=_versions_of(served),
        supported_features=tuple(
            build(
                SupportedFeatureKey,
                name=name,
                min_version=feature.min_level,
                max_version=feature.max_level,
            )
            for name, feature in FEATURES.items()
        ),
        finalized_features_epoch=sum(finalized.values()),  # levels only rise, so it does, too
        finalized_features=tuple(
            build(FinalizedFeatureKey, name=name, min_version_level=level, max_version_level=level)
            for name in FEATURES
            for level in (level_in_use(name, finalized),)
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
