"""A job on Redis, which several workers share."""
