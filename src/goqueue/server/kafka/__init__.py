"""The Kafka listener: connections, and a handler for each API."""
