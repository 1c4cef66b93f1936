"""What is seen: bytes in, yes or no out.

``bloom`` is the filter; ``contents``, ``layer`` and ``exact`` are what it consists
of. ``opening`` finds its store, ``growth`` acts when it is full, ``algebra`` puts two
together, ``info`` says what is known about one. ``parameters``, ``sizing`` and
``hashing`` are arithmetic. Nothing in here knows Scrapy. It keeps its pages in
``store``; ``frontier``, ``rescue``, ``crawl`` and ``cli`` come in.
"""
