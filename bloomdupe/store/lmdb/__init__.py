"""The store in a directory: an LMDB environment, and the checks before it is trusted.

``lmdb_store`` begins and ends every transaction, ``environment`` reads and writes
within one. ``check`` holds the checks that a store must pass; ``checked_reading`` reads
its file, and ``open_data`` marks a file as checked.
"""
