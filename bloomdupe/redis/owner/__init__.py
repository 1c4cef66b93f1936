"""What only a worker does on Redis: it owns partitions, and tells other workers news.

``owning_frontier`` shares the partitions among the workers, and ``owned_partition`` has
the steps of an owner. ``named_worker`` holds a name that the user has given to a
worker, and ``worker_news`` has texts for the other workers.
"""
