"""Dead-letter topics: writing, browsing and redriving."""
