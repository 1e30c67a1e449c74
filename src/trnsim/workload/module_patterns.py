"""Lists of names of modules in a ``quantization_config``: which modules a list means.

Each library reads its lists in a way of its own. Source: transformers 5.23,
quantizers/quantizers_utils.py, should_convert_module; compressed-tensors, utils/match.py,
match_name; NVIDIA, TensorRT Model Optimizer, exclude_modules of hf_quant_config.json.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate
from functools import cache
from typing import Final

from trnsim.workload.families.keys import ConfigKeys
from trnsim.workload.module_expressions import ModuleExpression

_EXPRESSION: Final = "re:"
"""The beginning of a regular expression among names."""
EVERY_MATRIX: Final = "Linear"
"""The class of all matrices of layers, as a target of compressed-tensors."""
_LITERAL: Final = re.compile(r"[\w.\-]+")
_NUMBER: Final = re.compile(r"[0-9\\\[?]")
"""A digit, or what may stand for one in a pattern."""
_BOUNDARY: Final = r"(?:(?<=\.)|(?=\.|$))"


class ModulePatterns:
    """A list of names and patterns of modules.

    Attributes:
        has_numbers: whether its names may depend on the number of a layer.
        is_of_class: whether the list is missing, or names the class of all matrices.
        has_module: the function that is True for a module of the list.
    """

    def __init__(self, keys: ConfigKeys, key: str, method: str) -> None:
        """The list under a key, as the library of a ``quant_method`` reads it.

        Raises:
            BadInput: it is no list of texts, or a regular expression is none.
        """
        self._keys, self._key = keys, key
        self._is_exact = method == "compressed-tensors"
        names = keys.items(key, str, "names of modules")
        self.is_of_class = self._is_exact and (
            EVERY_MATRIX in names or keys.config.get(key) is None
        )
        self.has_numbers = any(_NUMBER.search(name) for name in names)
        self._literals = set[str]()
        self._expressions: list[ModuleExpression | re.Pattern[str]] = []
        for name in names:
            self._add(name, is_glob=method == "modelopt")
        self._ends = tuple(name for name in self._literals if name and "." not in name)
        self.has_module = cache(self._has_module)

    def _add(self, name: str, *, is_glob: bool) -> None:
        if name.startswith(_EXPRESSION):
            self._expressions.append(self._compiled(name, name.removeprefix(_EXPRESSION)))
        elif self._is_exact or _LITERAL.fullmatch(name):
            self._literals.add(name)
        elif is_glob:
            self._expressions.append(re.compile(translate(name)))
        else:
            self._expressions.append(self._compiled(name, f"(?:{name}){_BOUNDARY}"))

    def _compiled(self, name: str, expression: str) -> ModuleExpression:
        try:
            return ModuleExpression(expression)
        except (re.error, RecursionError, OverflowError) as error:
            why = f"as a regular expression it has an error: {error}"
            raise self._keys.refuse(self._key, name, "names of modules", why) from error

    def _has_module(self, module: str) -> bool:
        """True if the list means a module, by its name or, but for exact lists, that of a parent.

        Names without a pattern count at either end of a module's name, and as a word of it.
        """
        if self._is_exact:
            return module in self._literals or any(e.match(module) for e in self._expressions)
        parents = _parents(module)
        names = (*parents, *_ends(module), *module.split("."))
        return (
            not self._literals.isdisjoint(names)
            or module.endswith(self._ends)
            or any(e.match(parent) for e in self._expressions for parent in parents)
        )

    def has_any(self, modules: Iterable[str]) -> bool:
        """True if the list means one of the modules."""
        return any(self.has_module(module) for module in modules)


def _parents(module: str) -> list[str]:
    """The names of a module and of those around it: a.b.c, a.b, a."""
    names = [module]
    while (cut := names[-1].rfind(".")) >= 0:
        names.append(names[-1][:cut])
    return names


def _ends(module: str) -> list[str]:
    """The ends of a module's name from a dot on: b.c, c."""
    names, name = [], module
    while (cut := name.find(".")) >= 0:
        name = name[cut + 1 :]
        names.append(name)
    return names
