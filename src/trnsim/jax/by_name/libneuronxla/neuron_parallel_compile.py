"""`libneuronxla.neuron_parallel_compile`: the graphs of a cache, compiled from a program.

Source: its caller, ray-project/ray python/ray/train/torch/xla/config.py.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from trnsim.compiler.compile_cache import cache_settings
from trnsim.document.values import json_text
from trnsim.errors import BadInput
from trnsim.files import write
from trnsim.foreign_text import terminal_text
from trnsim.jax import parallel_compilation
from trnsim.jax.by_name.libneuronxla.neuron_cc_cache import CacheUrl

_REPORT = "compilation_report.json"


def parallel_compile(workdir: str, cache_url: CacheUrl) -> dict[str, Any]:
    """Compile the graphs of a cache; the summary and the report, which is written to `workdir`.

    Raises:
        BadInput: a graph does not compile; the error names each.
    """
    settings = cache_settings(cache_url.cache_path)
    outcomes = parallel_compilation.compile_all(
        settings,
        lambda line: print(terminal_text(line), file=sys.stderr),  # noqa: T201  a log
        processes=os.cpu_count() or 1,
        retries=parallel_compilation.max_retries(),
    )
    report = parallel_compilation.report(outcomes, with_times=True)
    write(Path(workdir) / _REPORT, f"{json_text(report)}\n", parents=True)
    failures = [outcome for outcome in outcomes if not outcome.is_compiled]
    if failures:
        reasons = "\n".join(f"{outcome.graph}: {outcome.reason}" for outcome in failures)
        raise BadInput(f"{len(failures)} of {len(outcomes)} graphs do not compile\n{reasons}")
    return report
