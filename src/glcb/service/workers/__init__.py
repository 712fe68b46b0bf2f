"""Several processes that share one PostgreSQL: each owns some partitions of the experiments."""
