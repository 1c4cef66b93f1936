"""Where a crawl keeps its requests, and the one checkpoint that makes them durable.

``engine_contract`` has the promises of an engine, and ``session`` is Scrapy's side of
any engine. ``on_disk`` is the engine on LMDB or in memory, and ``checkpoint`` its
transaction, in which each :class:`~bloomdupe.store.participant.Participant` has a part.
``on_redis`` is the engine that several workers share.
"""
