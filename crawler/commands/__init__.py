"""The Scrapy commands of this project: ``crawl``, which replaces Scrapy's own."""
