"""Sight of a job from outside: what a terminal or a page can show of it.

``view`` reads a store, also while a crawl runs, and disturbs nobody. ``top`` shows it
in a terminal, ``report`` as a page with charts. ``shared_view``, ``shared_top`` and
``shared_report`` are the same of a crawl on Redis. They need packages that not
everybody has, and which are imported when they are used. ``cli`` comes in; arrows lead
to ``upkeep`` and ``crawl``, and to the rooms below them.
"""
