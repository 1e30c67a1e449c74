"""What is there: commands with their options, operations with kernels, operators of frameworks.

usage: inventory.py [FILE]
       inventory.py --compare A.json B.json

PYTHONPATH=CHECKOUT/src lists another checkout's. Lists come from the command line's own parser and
from tables by their names, wherever they are declared; whether an operation has a kernel is what
`lower` and `compiler` do with its own examples. A comparison ends with 1 where something is gone or
changed; what is new is told alone. Operators of PyTorch and JAX need torch and jax.
"""

import argparse
import json
import re
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path

import typer

import trnsim
from trnsim.cli import app
from trnsim.errors import EmulatorError
from trnsim.graph import OPERATIONS, Graph, Kind

SOURCE = Path(trnsim.__file__).parent
CHIP = "trn2"
OPERATORS = {"aten": "DECOMPOSITIONS", "stablehlo": "RULES"}
"""What a list is of, and the name of its tables."""
TABLES = ("KERNELS", "ON_TILES", "LEGAL", "EMITTERS")
"""Of operations of the graph; told without being compared, as the rooms may share one."""


def commands():
    """Every command by its words, with its arguments and options as its parser has them."""
    return dict(_commands(typer.main.get_command(app), ()))


def _commands(command, words):
    context = command.make_context(None, [], resilient_parsing=True)
    yield " ".join(words), {str(one.name): _option(one, context) for one in command.params}
    if hasattr(command, "list_commands"):
        for name in command.list_commands(context):
            # The group has a summary alone until the command is called.
            _, found, _ = command.resolve_command(context, [name])
            yield from _commands(found, (*words, name))


def _option(one, context):
    """What its help says: names, what it takes, its sentence, its default."""
    record = one.get_help_record(context)
    return ": ".join(record) if record else f"hidden: {', '.join(one.opts)}"


def entries(table):
    """Key -> value of all dictionaries of that name at the head of a module, and whence they are.

    Modules that need what is not installed are left out.
    """
    declared = re.compile(rf"^{table}\b[^=\n]*=", re.MULTILINE)
    uses = re.compile(rf"\b{table}\b")
    found, places = {}, []
    rooms = {
        path.parent
        for path in SOURCE.rglob("*.py")
        if declared.search(path.read_text(encoding="utf-8"))
    }
    # A table is filled by the modules beside it; those of one that has folders, by these.
    for path in sorted({file for room in rooms for file in room.rglob("*.py")}):
        name = ".".join(("trnsim", *path.relative_to(SOURCE).with_suffix("").parts))
        try:
            module = import_module(name.removesuffix(".__init__"))
        except ImportError:
            continue
        held = vars(module).get(table)
        if isinstance(held, dict) and uses.search(path.read_text(encoding="utf-8")):
            found |= held
            places.append(module.__name__)
    return found, places


def operators(table):
    """The keys of a table that are names, and how each is built where the table says it."""
    found, _ = entries(table)
    return {
        key: str(getattr(value, "composed", ""))
        for key, value in found.items()
        if isinstance(key, str)
    }


def operations():
    """Each operation of the graph: its kind, operands, and what becomes of its examples."""
    return {
        name: {
            "kind": operation.kind.name,
            "operands": list(operation.operands),
            **{how: _outcomes(operation, ask) for how, ask in WAYS.items()},
        }
        for name, operation in sorted(OPERATIONS.items())
    }


def _outcomes(operation, ask):
    """How many examples have kernels, and what is said of the others."""
    if operation.kind in (Kind.CONTROL, Kind.CALL):
        return {}  # other graphs and kernels of the user's, of which there are no examples
    counts = Counter(_outcome(example, ask) for example in operation.examples())
    return dict(sorted(counts.items()))


def _outcome(example, ask):
    graph = Graph()
    given = [graph.input(one.shape, one.dtype) for one in example.operands]
    graph.outputs = list(graph.apply_to_all(example.operation, given))
    try:
        return ask(graph)
    except EmulatorError as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def _of_room(name):
    """A function of the rooms that lower a graph, whichever has it."""
    rooms = [import_module(f"trnsim.{room}") for room in ("lower", "compiler")]
    return next(getattr(room, name) for room in rooms if hasattr(room, name))


def _lowered(graph):
    return "kernels" if _of_room("costs")(graph, CHIP) else "nothing to run"


def _compiled(graph):
    found = _of_room("compile")(graph, CHIP)
    return "; ".join(("program" if found.instructions else "nothing to run", *found.notes))


WAYS = {"lowered": _lowered, "compiled": _compiled}
"""What is asked of an operation's examples, and by what."""


def tables():
    """The operations that each table of rules has, by their names."""
    found = {}
    for table in TABLES:
        held, _ = entries(table)
        found[table] = sorted(key.__name__ for key in held if isinstance(key, type))
    return found


def inventory():
    """All lists."""
    return {
        "commands": commands(),
        "operations": operations(),
        **{name: operators(table) for name, table in OPERATORS.items()},
        "tables": tables(),
    }


COMPARED = ("commands", "operations", *OPERATORS)


def compare(one, other):
    """Print what is gone, changed and new in each list; whether something is gone or changed."""
    is_less = False
    for name in COMPARED:
        mine, theirs = flat(one[name]), flat(other[name])
        gone = [key for key in mine if key not in theirs]
        new = [key for key in theirs if key not in mine]
        changed = [key for key in mine if key in theirs and mine[key] != theirs[key]]
        print(f"{name}: {len(one[name])} and {len(other[name])}; ", end="")
        print(f"{len(gone)} gone, {len(changed)} changed, {len(new)} new")
        for word, keys in (("gone", gone), ("changed", changed), ("new", new)):
            for key in keys:
                print(f"  {word}: {key}: {mine.get(key)} -> {theirs.get(key)}")
        is_less |= bool(gone or changed)
    for table, names in one["tables"].items():
        theirs = other["tables"].get(table, [])
        print(f"{table}: {len(names)} and {len(theirs)} operations (not compared)")
    return is_less


def flat(values, place=""):
    """The ends of nested dictionaries by their places; an empty dictionary is one."""
    if not isinstance(values, dict) or not values:
        return {place: values}
    found = {}
    for key, inner in values.items():
        found |= flat(inner, f"{place} {key}".strip())
    return found


def main():
    """Write the lists, or compare two files of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, nargs="?", help="where to write; without, to print")
    parser.add_argument("--compare", type=Path, nargs=2, metavar="FILE")
    given = parser.parse_args()
    if given.compare:
        lists = [json.loads(path.read_text(encoding="utf-8")) for path in given.compare]
        sys.exit(compare(*lists))
    made = inventory()
    text = json.dumps(made, indent=1) + "\n"
    if given.file is None:
        print(text, end="")
    else:
        given.file.write_text(text, encoding="utf-8")
        print({name: len(held) for name, held in made.items()})


if __name__ == "__main__":
    main()
