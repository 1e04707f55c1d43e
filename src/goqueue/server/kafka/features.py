"""UpdateFeatures: levels of features that all nodes work with; all of a request's, or none."""

from kio.schema.errors import ErrorCode
from kio.schema.update_features.v2.request import UpdateFeaturesRequest
from kio.schema.update_features.v2.response import UpdateFeaturesResponse

from goqueue.model.errors import GoQueueError, InvalidRequest
from goqueue.security import Operation
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.errors import kafka_code
from goqueue.wire.messages import build


async def handle_update_features(
    context: Context, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse:
    """Raised to what all nodes support; what is in use already may be asked for."""
    try:
        context.access.demand_cluster(Operation.ALTER)
        names = [each.feature for each in request.feature_updates]
        if not names or len(set(names)) < len(names):
            raise InvalidRequest("name the features to update, each once")
        levels = {each.feature: each.max_version_level for each in request.feature_updates}
        await context.broker.raise_features(levels, validate_only=request.validate_only)
    except GoQueueError as error:
        return build(UpdateFeaturesResponse, error_code=kafka_code(error), error_message=str(error))
    return build(UpdateFeaturesResponse, error_code=ErrorCode.none, error_message=None)
