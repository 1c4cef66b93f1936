"""Redis: a filter and a frontier that many processes share on a server.

``address`` is the URL that names a server and a filter on it; ``connection`` is the
connection to the server, with its errors. The filter of a crawl consists of
``server``, which keeps a filter, and ``filter_on_server``. Each step that changes
something is one Lua script, in its own file, so it happens wholly or not at all. Only
this room and the store import
redis-py. It uses the hashing, sizing and page bytes of ``filter``; ``filter.opening``
calls it when a URL is opened, and ``moving`` for a crawl that moves.
"""
