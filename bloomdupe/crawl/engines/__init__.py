"""Where a crawl keeps its requests, and the one checkpoint that makes them durable.

``session`` is the crawl on LMDB, ``checkpoint`` its transaction, in which each
:class:`~bloomdupe.store.participant.Participant` has a part.
"""
