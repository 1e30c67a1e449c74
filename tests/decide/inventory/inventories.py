"""Inventories in a folder of a test's own, beside a model's config.json."""

import shutil
from pathlib import Path

from trnsim.decide.inventory import read

EXAMPLES = Path(__file__).parents[3] / "examples"
OLD_HEADER = "workload,model_config,kind,tokens_per_month,current_instance,usd_per_month"
ROW = {
    "workload": "chat",
    "model_config": "model.json",
    "kind": "serve",
    "tokens_per_month": "6e9",
    "current_instance": "p5.48xlarge",
    "usd_per_month": "80000",
}


def put(folder, content, name="inventory.csv"):
    """The path of an inventory with `content`, a model beside it."""
    shutil.copy(EXAMPLES / "llama-3.1-8b.json", folder / "model.json")
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def csv(folder, *rows):
    """An inventory of `rows`, each with the fields that it changes; None takes one away."""
    cells = [{**ROW, **row} for row in rows]
    names = list(dict.fromkeys(n for row in cells for n in row))
    names = [name for name in names if any(row.get(name) is not None for row in cells)]
    lines = [",".join(names)]
    lines += [",".join(row.get(name) or "" for name in names) for row in cells]
    return put(folder, "\n".join(lines) + "\n")


def one(folder, **changes):
    """The workload of an inventory of one row."""
    (found,) = read(csv(folder, changes))
    return found
