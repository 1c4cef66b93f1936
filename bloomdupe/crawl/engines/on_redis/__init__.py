"""The engine of a crawl that several workers share.

``on_redis`` is the engine, and ``worker`` the thread that talks to Redis. It is built
on the room ``redis`` as the engine on disk is built on ``frontier``.
"""
