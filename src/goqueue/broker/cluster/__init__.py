"""The other nodes: how this one reaches them, and what it asks of them."""
