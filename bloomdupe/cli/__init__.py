"""The command line: one module a verb, and the Scrapy command.

``main`` puts the verbs together. Each is a :class:`bloomdupe.cli.verb.Verb`;
``store_argument``, ``progress`` and ``table`` are what several of them need. Uses
``filter``, ``store`` and ``rescue``; nobody comes in.
"""
