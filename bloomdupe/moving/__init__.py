"""A job moves: imports, and the output that workers collect on Redis."""
