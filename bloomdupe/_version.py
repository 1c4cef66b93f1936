"""The version, in one place; packaging reads it, too."""

__version__ = "0.2.0"
