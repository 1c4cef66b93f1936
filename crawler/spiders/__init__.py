"""The spiders of this project: ``site``."""
