"""Syntax trees of source files, each parsed once for all tests of the shape of the house."""

import ast
import gc
from functools import cache


@cache
def tree(path):
    """The tree of a file."""
    is_enabled = gc.isenabled()
    gc.disable()  # a tree has no garbage, and looking for it takes longer than parsing
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    finally:
        if is_enabled:
            gc.enable()


@cache
def nodes(path):
    """Kind of node -> those of a file, each after what holds it."""
    found, todo = {}, [tree(path)]
    for node in todo:
        found.setdefault(type(node), []).append(node)
        for value in vars(node).values():
            if isinstance(value, ast.AST):
                todo.append(value)
            elif isinstance(value, list):
                todo.extend(one for one in value if isinstance(one, ast.AST))
    return found
