"""The nouns: ids, errors, settings, record batches.  No I/O."""
