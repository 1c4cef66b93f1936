"""Printable: what comes from the web, as a terminal, a log or a page can show it.

Control characters, C1 and NEL among them, can move a cursor or forge a line, and
bidirectional controls can turn a text around. So none of them is ever printed.
"""

from __future__ import annotations

import logging

__all__ = ["logger_of", "printable"]


def printable(text: str) -> str:
    """Return a text in which each character that cannot be seen is an escape.

    These are all that Unicode counts as "other" or as separators, except the blank:
    controls, format characters, surrogates, and line ends. The result stays as it is
    when it comes here again.
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else ascii(character)[1:-1]
        for character in text
    )


def logger_of(module: str) -> logging.Logger:
    """Return the logger of a module, whose messages are printable lines."""
    logger = logging.getLogger(module)
    logger.addFilter(_escape)
    return logger


def _escape(record: logging.LogRecord) -> bool:
    message = record.getMessage()
    if not message.isprintable():
        record.msg, record.args = "%s", (printable(message),)
    return True
