"""Words and ways of the source: pronouns as names, docstrings, shared class names, writers.

`house.py [CHECKOUT ...]` prints a column for each checkout (this one by default), so that two
commits stand side by side. `house.py --draw SEED [--files 40]` draws files at random for a reader
who has not seen them; `--without SEED` leaves out the files that another seed draws.
"""

from __future__ import annotations

import argparse
import ast
import io
import random
import re
import tokenize
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRONOUNS = ("one", "found", "given", "made")
DIALECTS = ("graph/ops", "isa", "nki", "jax/stablehlo")
"""Folders whose classes are operations and instructions, which share names by nature."""
READERS = {
    "yaml.safe_load, yaml_file": r"\byaml(_file)?\.(safe_load|compose|read|load)\b",
    "csv, cells": r"\bcsv\.(reader|DictReader)\b|\bread_table\(",
    "json.loads of files": r"\bjson\.loads?\(",
}
DUMPS = re.compile(r"\bjson\.dumps\(")
FORMATS_OF_OTHERS = {
    "document/values.py": "the writer of JSON",
    "grafana.py": "a page of Grafana, in a room below the writer",
    "cli/neuron_monitor.py": "AWS's neuron-monitor",
    "tools/monitor/report_lines.py": "likewise",
    "tools/neuron_ls.py": "AWS's neuron-ls",
    "profile/formats/trace_events.py": "Chrome's traces",
    "torch/profiler/profiled_trace.py": "likewise, written by PyTorch",
    "jax/kernel_calls.py": "the configuration of a custom call of XLA",
    "workload/captured.py": "a config.json of transformers, which may have Infinity",
    "disk_cache.py": "the cache, whose digest is of these bytes",
    "system/search.py": "results as the cache gives them back, and its keys",
    "device/agreement.py": "messages between ranks, whose digest is of these bytes",
    "cluster/slurm/task.py": "a variable that the launcher's own processes read",
    "launch/launcher.py": "a variable that the launcher's own processes read",
    "launch/supervisor.py": "messages between these processes",
    "cluster/kubernetes/api.py": "objects of Kubernetes",
    "cluster/kubernetes/http_service.py": "answers to kube-scheduler",
    "compiler/compile_cache/entry.py": "AWS's compile_flags.json, and the key of a program",
    "compiler/stand_in.py": "the head of a file in place of a NEFF",
    "device/graph_file.py": "a model's graph as a file, whose digest is of these bytes",
    "device/program_sequence.py": "messages between ranks",
    "gate/baselines.py": "a string of TOML",
    "decide/guard/alerts.py": "a string of PromQL",
    "jobs/field_types.py": "a user's value in an error",
    "jobs/formats/cloudformation.py": "a function of a template of CloudFormation",
    "jobs/formats/pod_template.py": "words of a user's command in an error",
    "jobs/formats/writing.py": "a spec in a format of other schedulers",
    "torch/traces/kernels/embedding.py": "the key of a stored kernel",
    "torch/traces/metaneff.py": "a stand-in for AWS's protobuf",
    "torch/traces/stored.py": "a traced program as a file",
    "torch/traces/structure.py": "a literal of TorchScript",
}
"""Files whose JSON is no answer of a command, each with what it is."""
WRITERS = {"_plain": r"\bdef _?plain\((?!self)"}


def counts(root: Path) -> dict[str, int]:
    """The figures of a checkout, by what they count."""
    names, classes, totals = Counter[str](), defaultdict[str, set[str]](set), Counter[str]()
    for path in sorted((root / "src" / "trnsim").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        totals["lines of source"] += text.count("\n")
        reader = io.StringIO(text).readline
        names.update(t.string for t in tokenize.generate_tokens(reader) if t.type == tokenize.NAME)
        tree = ast.parse(text)
        totals["blocks of TYPE_CHECKING"] += text.count("if TYPE_CHECKING:")
        totals['docstrings that begin with "What"'] += sum(map(_begins_with_what, ast.walk(tree)))
        place = path.relative_to(root / "src" / "trnsim").as_posix()
        for node in tree.body:
            is_public = isinstance(node, ast.ClassDef) and not node.name.startswith("_")
            if is_public and not place.startswith(DIALECTS):
                classes[node.name].add(place)
        for label, pattern in (READERS | WRITERS).items():
            totals[label] += len(re.findall(pattern, text))
        others = "formats of others" if place in FORMATS_OF_OTHERS else "answers"
        totals[f"json.dumps: {others}"] += len(DUMPS.findall(text))
    pronouns = {f"`{word}` as a name": names[word] for word in PRONOUNS}
    several = {"class names of several classes": sum(len(p) > 1 for p in classes.values())}
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    targets = {"make targets": len(re.findall(r"^[a-z-]+:", makefile, re.MULTILINE))}
    return pronouns | several | targets | dict(totals)


def _begins_with_what(node: ast.AST) -> bool:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    text = ast.get_docstring(node) if isinstance(node, documented) else None
    return (text or "").startswith("What")


def draw(root: Path, seed: int, files: int, without: list[int]) -> list[str]:
    """Paths of source files drawn with equal chance, other than those that earlier seeds draw.

    Packages' `__init__.py`, the folders of operations and instructions, and modules that exist for
    another library's import path (`by_name`, `aliases`) are not drawn.
    """
    source = root / "src" / "trnsim"
    paths = sorted(path.relative_to(source).as_posix() for path in source.rglob("*.py"))
    readable = [path for path in paths if _is_drawn(path)]
    for earlier in without:
        readable = sorted(set(readable).difference(_sample(readable, earlier, files)))
    return sorted(_sample(readable, seed, files))


def _sample(paths: list[str], seed: int, files: int) -> list[str]:
    return random.Random(seed).sample(paths, files)  # noqa: S311  no cryptography


def _is_drawn(place: str) -> bool:
    is_alias = "/by_name/" in place or "/aliases/" in place
    is_dialect = place.startswith(tuple(f"{folder}/" for folder in DIALECTS))
    return not (place.endswith("__init__.py") or is_dialect or is_alias)


def main() -> None:
    """The files of a draw, or a line for each figure with a column for each checkout."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("checkouts", nargs="*", type=Path, default=[ROOT], metavar="CHECKOUT")
    options.add_argument("--draw", type=int, metavar="SEED", help="draw source files to read")
    options.add_argument("--files", type=int, default=40, help="how many (default: 40)")
    options.add_argument("--without", type=int, action="append", default=[], metavar="SEED")
    arguments = options.parse_args()
    if arguments.draw is not None:
        print(*draw(ROOT, arguments.draw, arguments.files, arguments.without), sep="\n")
        return
    columns = [counts(root) for root in arguments.checkouts]
    for label in columns[0]:
        print(f"{label:40}", *(f"{column.get(label, 0):>10,}" for column in columns))


if __name__ == "__main__":
    main()
