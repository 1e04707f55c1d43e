"""The written-out table against the schemas it was written from."""

import pytest
from kio.schema.index import api_key_map, schema_name_map

from goqueue.wire.apis import (
    NEVER,
    VERSIONS,
    ApiKey,
    Versions,
    advertised_versions,
    has_flexible_response_header,
    is_flexible,
    versions_of,
)
from goqueue.wire.messages import request_class, response_class
from tests.unit.wire.kio_side import label


@pytest.mark.parametrize("api", ApiKey, ids=label)
def test_the_table_has_every_version_kio_knows(api):
    known = sorted(schema_name_map[api_key_map[api]])
    flexible = [version for version in known if request_class(api, version).__flexible__]
    assert api_key_map[api] == api.name.lower()
    assert VERSIONS[api] == Versions(known[0], known[-1], flexible[0] if flexible else NEVER)


@pytest.mark.parametrize("api", ApiKey, ids=label)
def test_headers_are_flexible_where_kio_says_so(api):
    for version in range(VERSIONS[api].min, VERSIONS[api].max + 1):
        request, response = request_class(api, version), response_class(api, version)
        assert is_flexible(api, version) == request.__header_schema__.__flexible__
        assert has_flexible_response_header(api, version) == response.__header_schema__.__flexible__


def test_an_unknown_api_has_no_versions():
    assert versions_of(9999) is None
    assert not is_flexible(9999, 5)


def test_produce_is_advertised_from_zero():
    assert advertised_versions(ApiKey.PRODUCE).min == 0
    assert advertised_versions(ApiKey.FETCH) == VERSIONS[ApiKey.FETCH]
