"""UpdateFeatures: levels of features that all nodes work with; all of a request's, or none."""

from kio.schema.errors import ErrorCode
from kio.schema.update_features.v2.request import FeatureUpdateKey, UpdateFeaturesRequest
from kio.schema.update_features.v2.response import UpdateFeaturesResponse

from goqueue.broker import Broker
from goqueue.cluster.errors import FeatureRefused
from goqueue.model.errors import GoQueueError, InvalidRequest
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.errors import kafka_code
from goqueue.server.kafka.versions import FEATURES, level_of
from goqueue.wire.messages import build


async def handle_update_features(
    context: Context, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse:
    """What is in use already may be asked for; no other level can be chosen yet."""
    try:
        names = [each.feature for each in request.feature_updates]
        if not names or len(set(names)) < len(names):
            raise InvalidRequest("name the features to update, each once")
        for update in request.feature_updates:
            _check(context.broker, update)
    except GoQueueError as error:
        return build(UpdateFeaturesResponse, error_code=kafka_code(error), error_message=str(error))
    return build(UpdateFeaturesResponse, error_code=ErrorCode.none, error_message=None)


def _check(broker: Broker, update: FeatureUpdateKey) -> None:
    name, level = update.feature, update.max_version_level
    if name not in FEATURES:
        raise FeatureRefused(f"there is no feature {name}; there are {', '.join(FEATURES)}")
    present = level_of(name, broker.metadata.features)
    if level != present:
        raise FeatureRefused(
            f"feature {name} is in use at level {present}, and cannot be set to {level}"
        )
