"""Printable: makes text from the web safe for a terminal, a log or a page.

Control characters, C1 and NEL among them, can move a cursor or forge a line, and
bidirectional controls can reverse a text. So they are never printed.
"""

from __future__ import annotations

import logging
from pathlib import Path


def printable(text: str) -> str:
    """Return a text with each invisible character as an escape.

    Invisible are all characters that Unicode counts as "other" or as separators, except
    the blank: controls, format characters, surrogates, and line ends. A second call
    leaves the result unchanged.
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else ascii(character)[1:-1]
        for character in text
    )


def near(path: str) -> str:
    """Return a path, or a URI, in the present folder without that folder."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path


def logger_of(module: str) -> logging.Logger:
    """Return the logger of a module; all its messages are printable lines."""
    logger = logging.getLogger(module)
    logger.addFilter(_escape)
    return logger


def _escape(record: logging.LogRecord) -> bool:
    message = record.getMessage()
    if not message.isprintable():
        record.msg, record.args = "%s", (printable(message),)
    return True
