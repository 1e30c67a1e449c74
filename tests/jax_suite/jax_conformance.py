"""JAX's own tests on the device and on XLA's CPU: docs/generated/jax-conformance.md.

FOLDER/jax is a clone of JAX at the tag of the version that is installed; nothing of it is kept. A
suite is a file of JAX's tests. It runs in a process of its own for each way: on the platform
neuron, on the CPU, and on neuron once more where JAX's tests take the platform for a CPU. A case
that ends the process is counted, and the suite goes on after it. Outcomes are kept in
build/jax-suite as cases end; a run that was stopped goes on, and `--again` begins anew.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests" / "upstream"), str(Path(__file__).parent)]

from jax_page import WAYS, page
from ledger import read

KEPT = ROOT / "build" / "jax-suite"
PAGE = ROOT / "docs" / "generated" / "jax-conformance.md"
SUITES = (
    *("lax_test", "lax_numpy_test", "nn_test", "lax_autodiff_test", "lax_control_flow_test"),
    *("api_test", "pmap_test", "shard_map_test", "random_test"),
)
CORES = "8"


def ledger_of(suite, way):
    """Where the outcomes of a suite are kept."""
    return KEPT / f"{suite}-{way}.jsonl"


def variables(way):
    """The environment of a suite's process."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    modules = [str(ROOT / "tests" / "upstream"), str(Path(__file__).parent)]
    kept["PYTHONPATH"] = os.pathsep.join([*modules, *filter(None, [kept.get("PYTHONPATH")])])
    kept["JAX_NUM_GENERATED_CASES"] = "1"
    kept["NEURON_RT_NUM_CORES"] = CORES
    kept["JAX_PLATFORMS"] = "cpu" if way == "cpu" else "neuron,cpu"
    if way == "cpu":
        kept["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={CORES}"
    return kept


def run(suite, way, folder):
    """Run what a suite's ledger does not have yet, again after each case that ended the process."""
    ledger = ledger_of(suite, way)
    ledger.parent.mkdir(parents=True, exist_ok=True)
    ledger.touch()
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "suite_plugin"),
        *("-p", "ledger", f"--ledger={ledger}", "--tb=no", "-rN", "--show-capture=no"),
        *(["--as-cpu"] if way == "as-cpu" else []),
        f"tests/{suite}.py",
    ]
    ended = signal.SIGABRT
    while ended not in {0, 1, 5}:
        ended = subprocess.run(
            command, cwd=folder / "jax", env=variables(way), check=False
        ).returncode
        note_end(ledger, ended)


def note_end(ledger, ended):
    """Count the case that ended the process, if one did."""
    entries = read(ledger)
    known = {entry["case"] for entry in entries if "case" in entry}
    started = [entry["started"] for entry in entries if "started" in entry]
    if started and started[-1] not in known:
        entry = {"case": started[-1], "outcome": "ended", "reason": f"exit code {ended}"}
        with ledger.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
    elif ended not in {0, 1, 5}:
        raise SystemExit(f"{ledger.stem}: pytest ended with {ended}")


def outcomes(suite, way):
    """Outcome and reason of each case of a suite; none of one that did not reach its end."""
    entries = read(ledger_of(suite, way))
    if not any("finished" in entry for entry in entries):
        return {}
    return {
        entry["case"]: (entry["outcome"], entry["reason"]) for entry in entries if "case" in entry
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder with a clone of JAX, named jax")
    parser.add_argument("suites", nargs="*", default=SUITES, help="files of JAX's tests")
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=WAYS)
    parser.add_argument("--again", action="store_true", help="forget what was run before")
    asked = parser.parse_args()
    for suite in asked.suites:
        for way in asked.ways:
            if asked.again:
                ledger_of(suite, way).unlink(missing_ok=True)
            run(suite, way, asked.folder.resolve())
    found = {suite: {way: outcomes(suite, way) for way in WAYS} for suite in SUITES}
    PAGE.write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
