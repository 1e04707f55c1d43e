"""A class for each way in which a server says no."""

import pytest

import goqueue
from goqueue.client import errors
from tests.unit.client.http.fake_server import FakeServer, client_of, refused


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (409, "receipt_expired", goqueue.ReceiptExpired),
        (409, "receipt_in_transaction", goqueue.ReceiptInTransaction),
        (404, "receipt_unknown", goqueue.ReceiptUnknown),
        (400, "receipt_malformed", goqueue.ReceiptMalformed),
    ],
)
def test_a_refused_receipt_has_a_class_of_its_own(
    status: int, code: str, kind: type[errors.Refused]
):
    with pytest.raises(kind):
        client_of(FakeServer(refused(status, code))).ack("orders:0:0:1:1.g")
    assert issubclass(kind, errors.refusal("", status))


def test_everything_public_comes_from_the_package():
    for name in goqueue.__all__:
        assert getattr(goqueue, name) is not None
    exported = {name for name in vars(errors) if name[0].isupper() and not name.isupper()}
    known = {each for each in exported if getattr(errors, each).__module__ == errors.__name__}
    assert known <= set(goqueue.__all__)


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("topic_not_found", 500, errors.TopicNotFound),  # the word stands before the number
        ("", 404, errors.NotFound),
        ("of_tomorrow", 503, errors.Overloaded),
        ("of_tomorrow", 499, errors.BadRequest),
        ("of_tomorrow", 500, errors.ServerFailed),
    ],
)
def test_a_refusal_is_known_by_its_code_then_its_status_then_its_kind(
    code: str, status: int, kind: type[errors.Refused]
):
    assert errors.refusal(code, status) is kind


def test_a_refusal_without_details_has_none():
    refused = errors.NotFound("no", code="c", status=404)
    assert (str(refused), refused.details, refused.retry_after_seconds) == ("no", {}, None)
