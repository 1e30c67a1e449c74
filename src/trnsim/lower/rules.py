"""Tables of rules: the emitters, kernels, tile rules and legal forms of operations.

    @emitter(DotGeneral)
    def dot_general(emission: Emission, node: Node) -> None: ...

    @kernel(Reverse)
    def reverse(op: Reverse, node: Node, source: Tensor) -> Tensor: ...

    @legal(DynamicSlice)
    def dynamic_slice(b: Build, op: DynamicSlice, operand: Value, *starts: Value) -> Value: ...

An emitter issues a node's instructions and puts the places of its results into `emission.places`.
A kernel computes from HBM to HBM: it takes the operation, its node and the operands in HBM. A rule
on tiles computes a part of an elementwise node: it takes the node, a function that makes the
result's tile, and the operands as tiles or numbers. A legal form takes a graph under construction,
the operation and its operands in that graph, and returns the results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from trnsim.errors import NotModelled
from trnsim.graph import Kind, Node, Operation
from trnsim.graph.building.build import Build
from trnsim.graph.ops.layout import Transpose
from trnsim.graph.patterns import Op, form_of
from trnsim.graph.rewriting import Match, Pattern

if TYPE_CHECKING:
    from trnsim.lower.emit.emission import Emission

Rule = TypeVar("Rule", bound=Callable[..., Any])
Emitter = Callable[["Emission", Node], None]

EMITTERS: Final[dict[type[Operation], Emitter]] = {}
"""Emitters by type of operation; elementwise operations, leaves and views have none."""
TILE_RULES: Final[dict[type[Operation], Callable[..., Any]]] = {}
"""Rules on tiles, by type of elementwise operation; one with a single instruction has none."""


LEGAL: Final[dict[type[Operation], Pattern]] = {}
"""Legal forms by type of operation, as patterns."""


def emitter(*operations: type[Operation]) -> Callable[[Emitter], Emitter]:
    """Declare the emitter of operations."""
    return _register(EMITTERS, operations)


def kernel(*operations: type[Operation]) -> Callable[[Rule], Rule]:
    """Declare the kernel, from HBM to HBM, of operations."""

    def declare(rule: Rule) -> Rule:
        def run(emission: Emission, node: Node) -> None:
            emission.run_kernel(rule, node)

        _register(EMITTERS, operations)(run)
        return rule

    return declare


_DEFERRED_KINDS: Final = (Kind.ELEMENTWISE, Kind.LEAF, Kind.VIEW, Kind.ALIAS)
"""Kinds of operations that are computed by their readers."""


def require_instructions(node: Node) -> None:
    """Check that an operation has instructions.

    Raises:
        NotModelled: it has none.
    """
    if node.kind is Kind.COLLECTIVE:
        raise NotModelled(
            f"{node.name} has no kernel yet: it exchanges values between cores, and a graph is "
            "lowered for one",
            fix="take it out of the graph, and call the framework's collective between graphs",
        )
    if node.kind not in _DEFERRED_KINDS and type(node.operation) not in {*EMITTERS, Transpose}:
        names = sorted(operation.name for operation in EMITTERS)
        raise NotModelled(
            f"{node.name} has no kernel yet; there are kernels for chains of elementwise "
            f"operations and reductions, {', '.join(names)}",
            fix="run it on the CPU, and send its result to the device",
        )


def tile_rule(*operations: type[Operation]) -> Callable[[Rule], Rule]:
    """Declare the rule on tiles of elementwise operations."""
    return _register(TILE_RULES, operations)


def legal(
    *operations: type[Operation],
    unless: Callable[[Node], bool] = lambda _: False,
    name: str = "",
) -> Callable[[Rule], Rule]:
    """Declare the legal form of operations; `unless` is true of their nodes that have a kernel.

    Nodes that `legalize` was told to keep stay as they are. The pattern is named `name`, or after
    the operation if that is empty.
    """

    def has_no_kernel(match: Match) -> bool:
        return not unless(match.node) and not match.facts(match.node)

    def declare(rule: Rule) -> Rule:
        for operation in operations:
            LEGAL[operation] = legal_pattern(
                name or operation.name, form_of(operation), rule, has_no_kernel
            )
        return rule

    return declare


def legal_pattern(
    name: str, before: Op, rule: Callable[..., Any], when: Callable[[Match], bool]
) -> Pattern:
    """The pattern of a legal form, whose meaning is the first line of the rule's docstring."""

    def after(match: Match) -> Any:
        b, node = Build(), match.node
        b.graph, b.result_types = match.graph, [value.type for value in node.results]
        return rule(b, node.operation, *node.operands)

    meaning = (rule.__doc__ or "").partition("\n")[0].rstrip(".")
    meaning = meaning[:1].lower() + meaning[1:]
    return Pattern(name, meaning, before, after, when, is_needed=True)


def _register(
    table: dict[type[Operation], Any], operations: tuple[type[Operation], ...]
) -> Callable[[Rule], Rule]:
    def declare(rule: Rule) -> Rule:
        table.update(dict.fromkeys(operations, rule))
        return rule

    return declare
