"""Topics as a source of Spark: options, planning, offsets, reading."""
