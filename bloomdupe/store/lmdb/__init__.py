"""The store in a directory: an LMDB environment, and the checks before it is trusted.

``lmdb_store`` begins and ends every transaction, ``lmdb_batch`` writes and
``lmdb_snapshot`` reads within one. ``trust`` holds the checks that a store must pass,
``open_data`` marks a file as checked, ``check`` has it read by two processes that run
``checked_reading``, ``heads`` reads its first pages without LMDB, ``environment`` opens
and builds LMDB's files, ``copying`` copies them.
"""
