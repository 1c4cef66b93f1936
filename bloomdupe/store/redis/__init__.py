"""The store on Redis: tables of the partitions of a crawl, which have an owner each.

``owner`` owns partitions, shows that it is alive, and commits to all of them at once.
``redis_store`` is a partition as a store. ``crawl_reader`` names the keys of a crawl,
looks at it from outside, and says which partitions a worker may take. ``client`` talks
to the server and waits for it, ``address`` takes URLs apart.
"""
