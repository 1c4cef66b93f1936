"""The status of a crawl: rounds, history, the lines in the log, metrics."""
