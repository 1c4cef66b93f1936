"""The store on Redis: tables of the partitions of a crawl, which have an owner each.

``owner`` owns partitions and commits to all of them at once, ``redis_store`` is a
partition as a store, ``redis_batch`` collects what is written. ``claims`` says which
partitions a worker may take, ``heartbeat`` that a worker is alive. ``crawl_reader``
looks at a crawl from outside, ``crawl_keys`` names its keys. ``client`` talks to the
server and waits for it, ``address`` takes URLs apart.
"""
