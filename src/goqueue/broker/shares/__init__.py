"""Kafka's share groups (KIP-932) on the queues."""
