"""Owner: a worker on Redis owns partitions, and tells the other workers news.

``owning_frontier`` shares the partitions among the workers, and ``owned_partition`` has
the steps of an owner. ``worker_news`` has texts for the other workers.
"""
