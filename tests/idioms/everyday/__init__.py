"""Everyday spiders, a few lines each, by theme."""
