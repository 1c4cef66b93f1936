"""Redis: where a filter lies that many processes share, and what others keep there.

``address`` is the URL that names a server, and a filter on it; ``connection`` speaks
with it, and has its errors. ``keys`` reads keys of other programs. All else is the
filter: ``server`` is one that keeps it, ``record`` what stands beside the pages,
``shared_layer`` the pages as other filters read them, ``redis_filter`` the filter. Each
step that changes something is one Lua script, in a file of its own, so it happens
wholly or not at all. Only this room imports redis-py. It stands on ``filter``, whose
hashing, sizing and bytes of pages it shares; ``filter.opening`` comes in when a URL is
opened, and ``upkeep`` for a crawl that moves.
"""
