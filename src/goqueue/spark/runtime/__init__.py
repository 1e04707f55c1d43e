"""Sessions, Java, running queries and their progress."""
