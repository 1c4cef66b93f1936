"""How a crawl stands: rounds, history, the lines in the log, metrics."""
