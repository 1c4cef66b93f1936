"""The store on Redis: tables of the partitions of a crawl, which have an owner each.

``owner`` owns partitions, shows that it is alive, and commits to all of them at once.
``redis_store`` is a partition as a store, ``redis_batch`` collects what is written.
``claims`` says which partitions a worker may take. ``crawl_reader`` names the keys of a
crawl, and looks at it from outside. ``client`` talks to the server and waits for it,
``address`` takes URLs apart.
"""
