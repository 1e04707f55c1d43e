"""All dashboards."""

from typing import Final

from tools.grafana.cluster import CLUSTER
from tools.grafana.overview import OVERVIEW
from tools.grafana.pipelines import PIPELINES
from tools.grafana.queues import QUEUES
from tools.grafana.topics import TOPICS

DASHBOARDS: Final = (OVERVIEW, TOPICS, QUEUES, CLUSTER, PIPELINES)
