"""The rules of the modules, applied to source code without running it.

Which module may import which is in ``pyproject.toml``, for ``lint-imports``.

A rule takes the modules of a package and returns the violations, a line each. So the
same rule judges bloomdupe and the small packages of its controls.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import textwrap
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

from bloomdupe.inside_scrapy import private_names as listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import TypeGuard

SCRAPY = {
    "itemadapter", "itemloaders", "parsel", "protego", "pydispatch", "queuelib",
    "scrapy", "twisted", "w3lib",
}  # fmt: skip
"""Scrapy, and the packages that come with it."""

DOCUMENTED = {
    "scrapy": {"FormRequest", "Item", "Request", "Selector", "Spider", "__version__"},
    "scrapy.commands": {"ScrapyCommand"},
    "scrapy.core": {"downloader"},
    "scrapy.core.scheduler": {"BaseScheduler"},
    "scrapy.crawler": {"Crawler"},
    "scrapy.downloadermiddlewares.cookies": {"CookiesMiddleware"},
    "scrapy.downloadermiddlewares.offsite": {"OffsiteMiddleware"},
    "scrapy.dupefilters": {"BaseDupeFilter"},
    "scrapy.extensions": {"feedexport"},
    "scrapy.extensions.feedexport": {
        "FTPFeedStorage", "FileFeedStorage", "GCSFeedStorage", "S3FeedStorage",
        "StdoutFeedStorage",
    },
    "scrapy.extensions.postprocessing": {"Bz2Plugin", "GzipPlugin", "LZMAPlugin"},
    "scrapy.extensions.spiderstate": {"SpiderState"},
    "scrapy.http": {
        "Headers", "HtmlResponse", "Response", "TextResponse", "XmlResponse", "request",
    },
    "scrapy.http.request": {"NO_CALLBACK"},
    "scrapy.pipelines.files": {"FilesPipeline"},
    "scrapy.settings": {"BaseSettings", "get_settings_priority"},
    "scrapy.spidermiddlewares.httperror": {"HttpError"},
    "scrapy.statscollectors": {"MemoryStatsCollector", "StatsCollector"},
    "scrapy.utils.asyncio": {"call_later"},
    "scrapy.utils.defer": {"deferred_from_coro", "maybe_deferred_to_future"},
    "scrapy.utils.httpobj": {"urlparse_cached"},
    "scrapy.utils.misc": {"build_from_crawler", "load_object"},
    "scrapy.utils.project": {"get_project_settings"},
    "scrapy.utils.python": {"global_object_name"},
    "scrapy.utils.reactor": {"install_reactor", "is_asyncio_reactor_installed"},
    "scrapy.utils.request": {"RequestFingerprinter", "request_from_dict"},
}  # fmt: skip
"""What modules may import from Scrapy itself: all of it stands in its documents."""
WHOLLY_DOCUMENTED = {"scrapy.exceptions", "scrapy.exporters", "scrapy.signals"}

OF_OTHERS = {
    # of Python
    "add", "add_done_callback", "argval", "cancelled", "cwd", "default_factory",
    "discard", "exception", "f_back", "f_code", "f_globals", "f_locals",
    "isoformat", "items", "keys", "now", "opname", "pop", "removeprefix", "replace",
    "reset", "rpartition", "startswith", "update", "utc", "values", "warning",
    # of Twisted, and of Scrapy's documents
    "FeedExporter", "addBoth", "bytes_received", "called", "connect", "crawler",
    "dont_filter", "engine", "headers_received", "send_catch_log",
    "engine_stopped", "fields_to_export", "get_downloader_middleware", "getbool",
    "getfloat", "method", "priority", "send_catch_log_async", "settings", "signals",
    "value",
}  # fmt: skip
"""Attributes that ``inside_scrapy`` may use, although it does not define them."""

PART_OF_NAMEDTUPLE = {"_asdict", "_field_defaults", "_fields", "_make", "_replace"}
BY_NAME = {"getattr", "hasattr", "setattr", "delattr", "attrgetter", "methodcaller"}


def files_of(folder: Path) -> dict[str, Path]:
    """Find the modules of a package, by their dotted names."""
    files = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        files[".".join(parts).removesuffix(".__init__")] = path
    return files


@cache
def modules_of(folder: Path) -> Mapping[str, ast.Module]:
    """Read the modules of a package."""
    return {
        name: ast.parse(path.read_text(encoding="utf-8"), str(path))
        for name, path in files_of(folder).items()
    }


@cache
def walked(tree: ast.AST) -> list[ast.AST]:
    """Return all nodes of a module or class."""
    return list(ast.walk(tree))


def room_of(module: str) -> str:
    """Return the folder of a module, or the module itself at the top level."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def nodes_of(
    node: ast.AST, *, for_types: bool = False
) -> Iterator[tuple[ast.AST, bool]]:
    """Yield all nodes, and whether each stands under ``if TYPE_CHECKING``."""
    yield node, for_types
    guarded = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    for child in ast.iter_child_nodes(node):
        yield from nodes_of(child, for_types=for_types or guarded)


# The rules of the modules


MOST_IN_A_FOLDER = 16
"""Modules, besides the face of the folder."""


def crowded_folders(modules: Mapping[str, ast.Module]) -> list[str]:
    """No folder holds more modules than a reader can survey."""
    folders = {name.rpartition(".")[0] for name in modules}
    in_it = Counter(name.rpartition(".")[0] for name in modules if name not in folders)
    return [
        f"{folder} holds {count} modules"
        for folder, count in sorted(in_it.items())
        if count > MOST_IN_A_FOLDER
    ]


VERBS = "bloomdupe.cli."
"""Modules in there are named after their verbs, or help verbs."""


def repeated_files(modules: Mapping[str, ast.Module]) -> list[str]:
    """Two modules have different names, so that a name finds one file."""
    folders = {name.rpartition(".")[0] for name in modules}
    found: dict[str, list[str]] = {}
    for name in sorted(modules):
        last = name.rpartition(".")[2]
        if name not in folders and not name.startswith(VERBS):
            found.setdefault(last, []).append(name)
    return [" and ".join(names) for names in found.values() if len(names) > 1]


def repeated_classes(modules: Mapping[str, ast.Module]) -> list[str]:
    """Two classes have different names."""
    found: dict[str, list[str]] = {}
    for name, tree in sorted(modules.items()):
        for node in walked(tree):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(f"{name}.{node.name}")
    return [" and ".join(names) for names in found.values() if len(names) > 1]


def undocumented_imports(modules: Mapping[str, ast.Module]) -> list[str]:
    """What Scrapy does not document is imported from ``private_names``.

    So every module can be imported, even if this Scrapy lacks it.
    """
    return [
        f"{name}: from {node.module} import {alias.name}"
        for name, tree in modules.items()
        for node, for_types in nodes_of(tree)
        if isinstance(node, ast.ImportFrom) and not for_types
        if (node.module or "").partition(".")[0] == "scrapy"
        if node.module not in WHOLLY_DOCUMENTED
        for alias in node.names
        if f"{node.module}.{alias.name}" not in WHOLLY_DOCUMENTED
        and alias.name not in DOCUMENTED.get(str(node.module), ())
    ]


# The rules of the names


def unlisted_names(modules: Mapping[str, ast.Module]) -> list[str]:
    """Each name of Scrapy that ``inside_scrapy`` uses is in ``private_names``."""
    inside = {name: t for name, t in modules.items() if room_of(name) == IN_SCRAPY}
    paths = (*listed.NEEDED, *listed.OF_PIPELINES, *listed.WITH_FALLBACK)
    known = {path.rpartition(".")[2] for path in paths} | OF_OTHERS
    for tree in inside.values():
        known |= _made(tree)
    return [
        f"{name}: {ast.unparse(node)}"
        for name, tree in inside.items()
        for node in walked(tree)
        if (attribute := attribute_of(node)) is not None
        and attribute not in known
        and not (attribute.startswith("__") and attribute.endswith("__"))
        and not _of_standard_library(node, tree)
    ]


IN_SCRAPY = "inside_scrapy"


def _made(tree: ast.Module) -> set[str]:
    """Return the functions, classes and attributes that a module defines."""
    names = set()
    for node in walked(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif _on_self(node) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
    return names


def _of_standard_library(node: ast.AST, tree: ast.Module) -> bool:
    if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
        return False
    return any(
        node.value.id == (alias.asname or alias.name)
        for statement in walked(tree)
        if isinstance(statement, ast.Import)
        for alias in statement.names
    )


def foreign_private_names(modules: Mapping[str, ast.Module]) -> list[str]:
    """A private name is read in the module that defines it, and nowhere else.

    So those of Scrapy can be read nowhere but in ``inside_scrapy``. In a class that
    is derived from a class of another package, ``self`` has the private names of that
    class, too. There the class itself must define the names that it reads, and must
    not define names of its base.
    """
    found = set()
    for name, tree in modules.items():
        if room_of(name) == "inside_scrapy":
            continue
        found |= {f"{name}: {what}" for what in _foreign(tree)}
        found |= {f"{name}: {what}" for what in _inherited(tree)}
    return sorted(found)


def engine_outside(modules: Mapping[str, ast.Module]) -> list[str]:
    """Only ``inside_scrapy`` reads a crawler's engine.

    All attributes of an engine are undocumented, with an underscore or without.
    """
    return sorted(
        {
            f"{name}: {ast.unparse(node)}"
            for name, tree in modules.items()
            if room_of(name) != "inside_scrapy"
            for node in walked(tree)
            if attribute_of(node) == "engine" and "crawler." in _flat(node)
        }
    )


def _flat(node: ast.AST) -> str:
    """Return an expression's source, a look-up by name written as an attribute."""
    if isinstance(node, ast.Call):
        return f"{ast.unparse(node.args[0])}."
    return ast.unparse(node)


def attribute_of(node: ast.AST) -> str | None:
    """Return the attribute that an expression is about, if it is about one."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Call):
        called = ast.unparse(node.func).rpartition(".")[2]
        if called in BY_NAME:
            for argument in node.args[:2]:
                if isinstance(argument, ast.Constant):
                    return str(argument.value)
    return None


def _private(name: str | None) -> bool:
    return (
        name is not None
        and name.startswith("_")
        and not (name.startswith("__") and name.endswith("__"))
        and name not in PART_OF_NAMEDTUPLE
    )


def _on_self(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in {"self", "cls"}
    )


def _defined(tree: ast.AST) -> set[str]:
    """Return the names that are defined in a module or class, attributes included."""
    names = set()
    for node in walked(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif _on_self(node) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
    return names


def _foreign(tree: ast.Module) -> Iterator[str]:
    own = _defined(tree)
    for node in walked(tree):
        attribute = attribute_of(node)
        if _private(attribute) and not _on_self(node) and attribute not in own:
            yield ast.unparse(node)
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if _private(alias.name):
                    yield f"from {node.module} import {alias.name}"


def _inherited(tree: ast.Module) -> Iterator[str]:
    origins = _origins(tree)
    for node in walked(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        bases = [_resolved(ast.unparse(base), origins) for base in node.bases]
        theirs = [base for base in bases if base.partition(".")[0] in SCRAPY]
        if not theirs:
            continue
        own = _defined(node)
        for inner in ast.walk(node):
            if _on_self(inner) and _private(inner.attr) and inner.attr not in own:
                yield f"{node.name}: {ast.unparse(inner)}"
        taken = {name for base in theirs for name in private_names(base)}
        for name in sorted(own & taken):
            yield f"{node.name} replaces {name}"


def _origins(tree: ast.Module) -> dict[str, str]:
    """Map the imported names of a module to the full names."""
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in walked(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def _resolved(name: str, origins: Mapping[str, str]) -> str:
    first, dot, rest = name.partition(".")
    return origins.get(first, first) + dot + rest


def private_names(class_: str) -> set[str]:
    """Return the private names of a class of Scrapy's, those it inherits included."""
    module, _, name = class_.rpartition(".")
    kind = getattr(importlib.import_module(module), name)
    names: set[str] = set()
    for base in kind.__mro__:
        if base.__module__.partition(".")[0] in SCRAPY:
            names |= _defined(ast.parse(textwrap.dedent(inspect.getsource(base))))
    return {name for name in names if _private(name)}
