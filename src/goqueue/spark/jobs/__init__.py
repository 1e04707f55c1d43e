"""Ready jobs over topics, each a small function of DataFrames."""
