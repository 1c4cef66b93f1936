"""A job on Redis, in partitions, which several workers share."""
