"""The slots of a worker, and their state, which goes to their next owner."""
