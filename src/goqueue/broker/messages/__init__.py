"""Publishing and reading messages by topic, partition and offset."""
