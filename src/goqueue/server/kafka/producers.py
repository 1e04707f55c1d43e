"""InitProducerId: an identity for producers that must not write anything twice."""

from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v6.request import InitProducerIdRequest
from kio.schema.init_producer_id.v6.response import InitProducerIdResponse

from goqueue.model.errors import GoQueueError
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.errors import kafka_code
from goqueue.wire.messages import build

FIRST_EPOCH: Final = 0


async def handle_init_producer_id(
    context: Context, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    """A new id each time: a producer without transactions has no past to be fenced from."""
    if request.transactional_id is not None:
        return _refused(_code_for_transactional_id(request.transactional_id))
    try:
        producer_id = await context.broker.reserve_producer_id()
    except GoQueueError as error:
        return _refused(kafka_code(error))
    return build(InitProducerIdResponse, producer_id=producer_id, producer_epoch=FIRST_EPOCH)


def _code_for_transactional_id(transactional_id: str) -> ErrorCode:
    # The one code that every client takes for final: nobody may use transactions here.  At others,
    # a missing coordinator or an unsupported version, librdkafka asks again until its time is up.
    if transactional_id:
        return ErrorCode.transactional_id_authorization_failed
    return ErrorCode.invalid_request


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return build(InitProducerIdResponse, error_code=code, producer_id=-1, producer_epoch=-1)
