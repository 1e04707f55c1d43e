"""A file a command; `goqueue.cli.main.COMMANDS` lists them."""
