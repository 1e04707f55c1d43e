"""Queues under load: publish, receive, ack; see `__main__.py` for the parts."""
