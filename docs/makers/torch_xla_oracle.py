"""docs/generated/torch-xla-oracle.md: programs beside the real torch_xla, and what differs."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any, Final

_ORACLE: Final = Path(__file__).parents[2] / "tests" / "xla" / "oracle"
_SUBJECTS: Final = {
    "autocast_programs": 'torch.autocast("xla")',
    "bf16_programs": "XLA_USE_BF16",
    "cut_programs": "what cuts, and what a cut computes",
    "downcast_programs": "XLA_DOWNCAST_BF16",
    "name_programs": "names of xm, xr, pl, xmp, xser and met",
    "recompiled_programs": "what compiles again",
    "seed_programs": "random numbers and states",
    "tensor_programs": "tensors, and the host's beside them",
    "training_programs": "optimizers, loaders, modules",
}
_HEAD: Final = """\
# Programs beside the real torch_xla

Each program runs unmodified with torch_xla 2.9.0 on its CPU (PyTorch 2.9.0, a process for each)
and with ours. Compared are values (within 1e-5; random ones by shape and repetition), dtypes,
printed text, errors by their class, and the counters MarkStep, CachedCompile, UncachedCompile and
`aten::*` with the samples of CompileTime, ExecuteTime and TransferFromDeviceTime.
`tests/xla/oracle` has the programs and the real answers; `make test` compares them.

| programs | subject | number | with a difference |
|---|---|---:|---:|
"""
_DIFFERENCES: Final = """
## Differences

| programs | what differs | why |
|---|---|---|
"""


def rows() -> list[dict[str, Any]]:
    """The rows of the table of differences."""
    text = (_ORACLE / "differences.toml").read_text(encoding="utf-8")
    table: list[dict[str, Any]] = tomllib.loads(text)["difference"]
    return table


def _plain(name: str) -> str:
    """A program's name as text."""
    return name.partition(".")[2].replace("_", " ") or "all"


def page() -> str:
    """The page's text."""
    listed = {name for row in rows() for name in row["programs"]}
    lines: list[str] = []
    for module, subject in _SUBJECTS.items():
        text = (_ORACLE / "answers" / f"{module}.json").read_text(encoding="utf-8")
        names = json.loads(text)
        differing = sum(f"{module}.{name}" in listed for name in names)
        lines.append(f"| [{module}](../../tests/xla/oracle/programs/{module}.py) | {subject} ")
        lines[-1] += f"| {len(names)} | {differing} |"
    differences = [
        f"| {', '.join(map(_plain, row['programs']))} | {', '.join(row['fields'])} "
        f"| {row['reason']} |"
        for row in rows()
    ]
    return _HEAD + "\n".join(lines) + "\n" + _DIFFERENCES + "\n".join(differences) + "\n"
