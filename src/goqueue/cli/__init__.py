"""The command `goqueue`."""
