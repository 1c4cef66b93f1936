"""The store in a directory: an LMDB environment, and the checks before it is trusted.

``lmdb_store`` begins and ends every transaction, ``lmdb_batch`` writes and
``lmdb_snapshot`` reads within one. ``trust`` holds the checks that a store must pass,
``datafile`` and ``check`` read the data file without LMDB, ``environment`` opens and
builds LMDB's files, ``copying`` copies them.
"""
