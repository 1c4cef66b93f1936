"""The command line: the verbs, and the Scrapy command.

``main`` puts the verbs together. Each is a :class:`bloomdupe.cli.verbs.Verb`; several
verbs share ``output``. Uses the packages below it; no other package imports the command
line.
"""
