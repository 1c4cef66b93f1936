"""The version, in one place; packaging reads it, too."""

__version__ = "1.0.0"
