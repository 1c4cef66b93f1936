"""Patterns by which a test fails by chance, found in its source without running it.

A test waits for an event, never for an amount of time, and a fault is injected at a
named point, not after a delay.
"""

from __future__ import annotations

import ast
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PATTERNS", "Finding", "found_in"]

KILLS = {"kill", "terminate", "send_signal"}
SIZES = {"st_size", "st_mtime", "st_mtime_ns", "getsize", "getmtime"}
TIMERS = {"Timer", "call_later", "callLater"}
WAITS = ("wait", "until", "patiently")

Function: TypeAlias = "ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class Finding(NamedTuple):
    """A pattern, and the function in which it stands."""

    place: str
    """``MODULE:FUNCTION``, without a function at the top of a module."""
    pattern: str


def found_in(module: str, source: str) -> list[Finding]:
    """Return what is found in a module: in it, and in each of its functions."""
    functions: dict[Function, str] = {
        node: f"{module}:{node.name}" if hasattr(node, "name") else module
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef))
    }
    _own.cache_clear()
    return [
        Finding(place, pattern)
        for function, place in functions.items()
        for pattern, matches in PATTERNS.items()
        if matches(function)
    ]


def _called(node: ast.AST) -> str:
    """Return the last part of the name of what is called; nothing if it is no call."""
    if not isinstance(node, ast.Call):
        return ""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


@cache
def _own(node: ast.AST) -> list[ast.AST]:
    """Return all nodes of a function, without the functions in it."""
    found: list[ast.AST] = []
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, FUNCTIONS):
            found.append(child)
            found += _own(child)
    return found


def sleeps(function: Function) -> bool:
    """Whether it sleeps outside of a loop that ends by a condition."""
    in_loops = {
        id(node)
        for loop in _own(function)
        if isinstance(loop, ast.While)
        for node in _own(loop)
    }
    return any(
        _called(node) == "sleep" and id(node) not in in_loops and not _yields(node)
        for node in _own(function)
    )


def _yields(call: ast.AST) -> bool:
    """Whether it is ``sleep(0)``, which takes no time."""
    assert isinstance(call, ast.Call)
    return any(isinstance(a, ast.Constant) and a.value == 0 for a in call.args)


def kills_after_a_time(function: Function) -> bool:
    """Whether it kills by a timer, or when a wait has taken too long."""
    for node in _own(function):
        if _called(node) in TIMERS and _kills(node):
            return True
        if isinstance(node, ast.ExceptHandler) and node.type is not None:
            late = "Timeout" in ast.unparse(node.type)
            if late and any(_called(inner) in KILLS for inner in ast.walk(node)):
                return True
        if _called(node) == "suppress" and "Timeout" in ast.unparse(node):
            return any(_called(other) in KILLS for other in _own(function))
    return False


def _kills(call: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Attribute) and node.attr in KILLS
        for node in ast.walk(call)
    )


def polls_files(function: Function) -> bool:
    """Whether it waits until a file has some size, or was written to."""
    asked: list[ast.AST] = []
    for node in _own(function):
        if isinstance(node, ast.While):
            asked.append(node.test)
        elif _called(node).lstrip("_").startswith(WAITS):
            asked.append(node)
    return any(
        getattr(node, "attr", getattr(node, "id", "")) in SIZES
        for condition in asked
        for node in ast.walk(condition)
    )


def asks_for_a_port(function: Function) -> bool:
    """Whether it takes a free port by itself: its number may outlive its socket."""
    return any(_called(node) == "getsockname" for node in _own(function))


PATTERNS: dict[str, Callable[[Function], bool]] = {
    "sleeps without a condition": sleeps,
    "kills after a time": kills_after_a_time,
    "polls the size or the time of a file": polls_files,
    "takes a free port by itself": asks_for_a_port,
}
