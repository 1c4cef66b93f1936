"""Where it lies: the directory with an LMDB environment, and its transactions.

``store`` begins and ends every transaction, ``batch`` writes and ``snapshot`` reads
within one; ``format`` says what the bytes on disk look like. ``trust`` holds the
checks that a store must pass, ``environment`` opens, builds and copies LMDB's files,
``files`` looks after what stands beside them, ``failures`` says why something failed.
``datafile`` and ``check`` read the data file without LMDB. No other room imports
``lmdb``. It uses ``errors`` only; ``filter``, ``frontier``, ``rescue`` and ``crawl``
come in.
"""
