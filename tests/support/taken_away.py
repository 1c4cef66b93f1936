"""A Scrapy that lacks a name, as a later version may.

    python tests/support/taken_away.py NAME scrapy|bloomdupe [argument ...]

runs a command with a Scrapy in whose source the name is another one, wherever it
stands. ``NAME`` is one of :mod:`bloomdupe.inside_scrapy.private_names`, such as
``scrapy.core.downloader.Slot.transferring``.
"""

from __future__ import annotations

import ast
import importlib
import runpy
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType

OLD = "_of_old"
"""What is added to the name."""

HOLDERS = {
    "AddonManager": {"addons"},
    "FSFilesStore": {"store"},
    "MiddlewareManager": {"extensions", "itemproc", "middleware", "spidermw"},
    "OffsiteMiddleware": {"o"},
    "Scraper": {"scraper"},
    "SpiderState": {"obj"},
}
"""Names by which the rest of Scrapy calls the objects of a class."""

ENTRIES = {"scrapy": "scrapy.cmdline", "bloomdupe": "bloomdupe"}


class _Renamed(ast.NodeTransformer):
    """Renames a function or class of a module, or an attribute of a class.

    An attribute is renamed in the body of its class and of classes that derive from it,
    and where the rest of Scrapy uses it. Other names that are the same stay.
    """

    def __init__(self, place: str, name: str, class_: str | None) -> None:
        self.place = place
        self.name = name
        self.class_ = class_
        self.inside = False

    def concerns(self, module: str, source: str) -> bool:
        """Whether anything is to be renamed in the source of a module."""
        if self.class_ is None and self.place not in source and module != self.place:
            return False
        return self.name in source

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        if self.class_ is None:
            node.name = self.renamed(node.name)
        bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
        before, self.inside = self.inside, self.class_ in {node.name, *bases}
        self.generic_visit(node)
        for inner in node.body if self.inside else ():
            if isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name):
                inner.target.id = self.renamed(inner.target.id)
        self.inside = before
        return node

    def visit_FunctionDef(self, node: Any) -> ast.AST:
        if self.class_ is None or self.inside:
            node.name = self.renamed(node.name)
            for decorator in node.decorator_list:  # the setter of a property
                for part in ast.walk(decorator):
                    if isinstance(part, ast.Name):
                        part.id = self.renamed(part.id)
        self.generic_visit(node)
        return node  # type: ignore[no-any-return]

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        holder = ast.unparse(node.value).rpartition(".")[2]
        own = self.inside and holder in {"self", "cls"}
        private = self.name.startswith("_") and isinstance(node.value, ast.Name)
        held = holder in HOLDERS.get(self.class_ or "", ())
        if self.class_ is not None and (own or private or held):
            node.attr = self.renamed(node.attr)
        self.generic_visit(node)
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if self.class_ is None:
            node.id = self.renamed(node.id)
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        for alias in node.names:
            if self.class_ is None and alias.name == self.name:
                alias.asname = self.renamed(alias.asname or alias.name)
                if node.module == self.place:
                    alias.name = self.renamed(alias.name)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if node.value == self.name and self.name.startswith("_"):  # in __slots__
            node.value = self.renamed(self.name)
        return node

    def renamed(self, name: str) -> str:
        """Return the other name, if it is the name that is taken away."""
        return name + OLD if name == self.name else name


class _Loader(SourceFileLoader):
    change: _Renamed

    def get_code(self, fullname: str) -> CodeType | None:
        source = self.get_data(self.path).decode()
        if not self.change.concerns(fullname, source):
            return super().get_code(fullname)
        tree = self.change.visit(ast.parse(source, self.path))
        return compile(tree, self.path, "exec")


class _Finder(MetaPathFinder):
    def __init__(self, change: _Renamed) -> None:
        self.change = change

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: Any = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != "scrapy":
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or not isinstance(spec.loader, SourceFileLoader):
            return spec
        spec.loader = _Loader(spec.loader.name, spec.loader.path)
        spec.loader.change = self.change
        return spec


def take_away(path: str) -> None:
    """Let Scrapy, which is not imported yet, lack a name from now on."""
    place, _, name = path.rpartition(".")
    owner = place.rpartition(".")[2]
    class_ = owner if owner.lstrip("_")[:1].isupper() else None
    if class_ is None and _is_module(path):
        _hide(path)
        return
    sys.meta_path.insert(0, _Finder(_Renamed(place, name, class_)))


def _is_module(path: str) -> bool:
    place = None
    for part in range(1, path.count(".") + 2):
        name = ".".join(path.split(".")[:part])
        spec = PathFinder.find_spec(name, place)
        if spec is None:
            return False
        place = spec.submodule_search_locations
    return True


def _hide(path: str) -> None:
    """Let bloomdupe not find a module that the rest of Scrapy has."""
    place, _, name = path.rpartition(".")
    importlib.import_module(path)
    delattr(sys.modules[place], name)
    import_module = importlib.import_module

    def without(name: str, package: str | None = None) -> Any:
        if name == path:
            raise ModuleNotFoundError(name)
        return import_module(name, package)

    importlib.import_module = without


if __name__ == "__main__":
    _, taken, entry, *arguments = sys.argv
    del sys.path[0]
    if taken:
        take_away(taken)
    sys.argv = [entry, *arguments]
    runpy.run_module(ENTRIES[entry], run_name="__main__")
