"""A job moves: imports, exports, and the output that workers collect on Redis."""
