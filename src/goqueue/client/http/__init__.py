"""The HTTP clients, synchronous and asynchronous."""
