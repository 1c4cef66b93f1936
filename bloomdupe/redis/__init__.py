"""Where a filter lies that many processes share: Redis.

``address`` is the URL that names one, ``server`` the connection and its errors,
``record`` what stands in Redis beside the pages, ``shared_layer`` the pages as other
filters read them, ``redis_filter`` the filter. Each step that changes something is one
Lua script, in a file of its own, so it happens wholly or not at all. Only this room
imports redis-py. It stands on ``filter``, whose hashing, sizing and bytes of pages it
shares; ``filter.opening`` comes in when a URL is opened, and nobody else.
"""
