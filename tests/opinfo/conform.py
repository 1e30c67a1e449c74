"""Every operator of PyTorch's own table on the device, beside the CPU.

Each entry is checked in a child of its own, so that a crash or a hang costs that entry alone. What
each gave is kept in build/opinfo as it ends: a run that was stopped goes on where it stopped.
"""

import argparse
import json
import os
import resource
import signal
import sys
import time
import warnings
from contextlib import suppress
from dataclasses import asdict
from importlib import import_module
from itertools import islice
from pathlib import Path

# One thread: a child made by fork has no others.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from checks import CHECKS, Outcome, applies, check, dtypes_of
from core import better, core_operators, direct_times, how, sampled_times
from ops_page import page
from remains import surprises
from torch.testing._internal.common_methods_invocations import op_db

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build" / "opinfo"
PAGE = ROOT / "docs" / "generated" / "torch-ops.md"
LIMIT_S = 600


def name_of(entry):
    """The entry's name with its variant ("linalg.norm.subgradients_at_zero"), unique."""
    return entry.full_name


def checked_in_child(kind, entry, limit_s):
    """The outcome of an entry, from a child that may crash or hang."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _answer(kind, entry, writing)
    os.close(writing)
    text = _read_until(reading, child, limit_s)
    _, status = os.waitpid(child, 0)
    if text:
        return Outcome(**json.loads(text))
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        cause = f"no answer in {limit_s} s" if number == signal.SIGKILL else f"signal {number}"
        return Outcome(failure=f"the process died: {cause}")
    return Outcome(failure=f"the process left with {os.WEXITSTATUS(status)}")


def _answer(kind, entry, writing):
    """The child's part."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        outcome = check(kind, entry)
    except Exception as error:  # noqa: BLE001  a sample that cannot be made
        outcome = Outcome(failure=f"{type(error).__name__}: {error}"[:200])
    os.write(writing, json.dumps(asdict(outcome)).encode())
    os._exit(0)


def _read_until(reading, child, limit_s):
    """What the child writes before it ends; it is killed at the limit."""
    signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
    signal.alarm(limit_s)
    try:
        with os.fdopen(reading) as answer:
            return answer.read()
    finally:
        signal.alarm(0)


def kept(kind):
    """What an earlier run found, by entry."""
    path = KEPT / f"{kind}.jsonl"
    if not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {row.pop("entry"): Outcome(**row) for row in rows}


def run(kind, names, limit_s):
    """Check what has no outcome yet, and say how far it is."""
    KEPT.mkdir(parents=True, exist_ok=True)
    known = kept(kind)
    entries = [e for e in op_db if applies(kind, e) and (not names or name_of(e) in names)]
    with (KEPT / f"{kind}.jsonl").open("a", encoding="utf-8") as ledger:
        for number, entry in enumerate(entries, 1):
            if name_of(entry) in known:
                continue
            start = time.perf_counter()
            outcome = checked_in_child(kind, entry, limit_s)
            ledger.write(json.dumps({"entry": name_of(entry), **asdict(outcome)}) + "\n")
            ledger.flush()
            said = outcome.failure or f"{outcome.compared} compared"
            taken = time.perf_counter() - start
            print(f"{kind} {number}/{len(entries)} {name_of(entry)} {taken:.1f} s: {said}")


def core_times():
    """How each core operator gets its time, of direct calls and of the first samples."""
    found = direct_times()
    for entry in op_db:
        for dtype in dtypes_of(entry)[:1]:
            with suppress(Exception), warnings.catch_warnings():  # it has no samples here
                warnings.simplefilter("ignore")
                samples = islice(entry.sample_inputs("cpu", dtype), 4)
                for name, kernels in sampled_times(entry, samples).items():
                    found[name] = better(found.get(name), kernels)
    return {name: how(name, found) for name in core_operators()}


def main():
    """Run the kinds of checks that were asked for, then write the page; 1 if it has surprises."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", default=",".join(CHECKS), help="of the checks, by comma")
    parser.add_argument("--entries", nargs="*", default=[], help="only these, and no page")
    parser.add_argument("--limit", type=int, default=LIMIT_S, help="seconds for one entry")
    given = parser.parse_args()
    torch.set_num_threads(1)
    sys.stdout.reconfigure(line_buffering=True)
    if "compiled" in given.kinds:
        import_module("torch._inductor")  # once, not in each child
    for kind in given.kinds.split(","):
        run(kind, given.entries, given.limit)
    if given.entries:
        return 0
    outcomes = {kind: kept(kind) for kind in CHECKS}
    PAGE.write_text(page(outcomes, core_times(), torch.__version__), encoding="utf-8")
    found = surprises(outcomes)
    print("\n".join(found) or f"as expected: {PAGE.relative_to(ROOT)}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
