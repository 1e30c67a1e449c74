"""The share of a program that each module of the model takes.

Operations record the module that they came from. Equal layers are one row: the number in the path
is a star, as in "encoder.layer.*.mlp".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trnsim.compiler.layers import Stack
from trnsim.compiler.work import Work
from trnsim.errors import SourceLine
from trnsim.graph import Graph, Origin
from trnsim.profile.analysis.model_estimate import Share
from trnsim.profile.measures.parts import PartCost


def module_shares(work: Work, graph: Graph, stacks: Sequence[Stack]) -> list[Share]:
    """Work by module, operation and source line, in the order of the graph."""
    star_layers, numbers = _path_starrer(graph, stacks)
    parts: dict[tuple[str, str, SourceLine | None], PartCost] = {}
    for (name, place), part in sorted(work.items(), key=lambda item: _sort_key(item[0][1])):
        node_origin = graph.nodes[place].origin if 0 <= place < len(graph.nodes) else None
        origin = node_origin or Origin()
        key = star_layers(origin.module), name, origin.line
        parts[key] = parts.get(key, PartCost()).plus(part)
    return [
        Share(module, name, _layer_count(module, numbers), part, line)
        for (module, name, line), part in parts.items()
    ]


def _sort_key(place: int) -> float:
    """Sort key of a place: work of no operation comes last."""
    return place if place >= 0 else float("inf")


def _path_starrer(
    graph: Graph, stacks: Sequence[Stack]
) -> tuple[Callable[[str], str], dict[str, int]]:
    """A function that replaces numbers of equal layers by stars, and the layers of each star."""
    stars = _layer_paths(graph, stacks)
    numbers: dict[str, set[str]] = {star: set() for star in stars}

    def star_layers(path: str) -> str:
        """The path with stars; notes the numbers that they replace."""
        steps = path.split(".")
        for place in range(len(steps)):
            star = ".".join([*steps[:place], "*"])
            if star in numbers and steps[place].isdigit():
                numbers[star].add(steps[place])
                steps[place] = "*"
        return ".".join(steps)

    for node in graph.nodes if stars else ():
        star_layers(node.origin.module if node.origin is not None else "")
    return star_layers, {star: len(layers) for star, layers in numbers.items()}


def _layer_paths(graph: Graph, stacks: Sequence[Stack]) -> list[str]:
    """Paths of equal layers ("encoder.layer.*"): module paths that differ in one number."""
    stars: dict[str, None] = {}
    runs = [run for stack in stacks for run in stack.runs]
    pairs = [
        (place, place + run.length)
        for run in runs
        for place in range(run.start, run.start + run.length)
    ]
    for places in pairs:
        pair = [graph.nodes[place].origin for place in places]
        first, second = (origin.module.split(".") if origin is not None else [] for origin in pair)
        differing = [n for n, step in enumerate(first) if [step] != second[n : n + 1]]
        numbers = [steps[n] for n in differing[:1] for steps in (first, second) if n < len(steps)]
        if numbers and all(number.isdigit() for number in numbers):
            stars[".".join([*first[: differing[0]], "*"])] = None
    return list(stars)


def _layer_count(module: str, numbers: dict[str, int]) -> int:
    """The number of equal layers that a starred path stands for."""
    steps = module.split(".")
    stars = [".".join(steps[: place + 1]) for place, step in enumerate(steps) if step == "*"]
    times = 1
    for star in stars:
        times *= numbers.get(star, 1)
    return times
