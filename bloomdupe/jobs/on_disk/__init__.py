"""A job in a directory, in a store that a single process at a time may change."""
