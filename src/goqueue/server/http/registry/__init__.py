"""Confluent's Schema Registry API, at `/registry`."""
