"""A job in a directory, in a store that one process at a time may change."""
