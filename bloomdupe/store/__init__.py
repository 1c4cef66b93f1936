"""Storage: the directory with an LMDB environment, and its transactions.

``store`` begins and ends every transaction, ``batch`` writes and ``snapshot`` reads
within a transaction; ``format`` defines the bytes on disk. ``trust`` holds the checks
that a store must pass, ``environment`` opens, builds and copies LMDB's files, ``files``
manages the files beside them, ``system_errors`` explains errors. ``participant`` is the
contract of all that takes part in a checkpoint. ``progress`` says in the log how far a
long task is. ``platform`` holds everything that Linux and macOS do differently.
``datafile`` and ``check`` read the data file without LMDB. No other room imports
``lmdb``. It uses ``errors`` only; ``filter``, ``frontier`` and ``crawl``
come in.
"""
