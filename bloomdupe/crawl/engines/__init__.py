"""Where a crawl keeps its requests, and the one checkpoint that makes them durable.

``crawl_engine`` is the engine on a store or in memory, and ``session`` is Scrapy's side
of it. ``checkpoint`` is its transaction, in which each
:class:`~bloomdupe.store.store.Participant` has a part, and ``committing`` writes
it, on a thread if the store is on a network. A commit that is refused lets the engine
drop its memory and read the last commit again: pages and ``start()`` run anew.
``worker_engine`` shares a crawl on Redis with other workers, and ``handshake`` gives it
its first partitions.
"""
