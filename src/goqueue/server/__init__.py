"""One node: its Kafka and HTTP listeners, checks, logs and metrics."""
