"""The requests of a worker: at hand, in progress, in memory, and as Redis gets them."""
