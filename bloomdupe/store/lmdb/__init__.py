"""The store in a directory: an LMDB environment, and the checks before it is trusted.

``lmdb_store`` begins and ends every transaction, ``lmdb_batch`` writes and
``lmdb_snapshot`` reads within one. ``check`` holds the checks that a store must pass,
and has its file read by a process that runs ``checked_reading``; ``open_data`` marks a
file as checked, ``environment`` opens and builds LMDB's files, ``copying`` copies them.
"""
