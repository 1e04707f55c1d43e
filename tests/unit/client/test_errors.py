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
