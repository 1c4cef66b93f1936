"""What only a worker does on Redis: it owns partitions, and tells other workers news.

``owning_frontier`` shares the partitions among the workers, and ``owned_partition`` has
the steps of an owner. ``worker_news`` has texts for the other workers.
"""
