"""The whole of it in two minutes: `make demo`.  `__main__` tells the story."""
