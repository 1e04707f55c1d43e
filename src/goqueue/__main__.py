"""`python -m goqueue` is the command `goqueue`."""

from goqueue.cli.main import main

main()
