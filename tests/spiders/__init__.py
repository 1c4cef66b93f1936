"""Spiders for the tests, a module for each test module that needs its own."""
