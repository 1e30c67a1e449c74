"""Architectures one by one, each in a process of its own with a time limit.

What is known already is kept in a file of one row a line, so that a stopped run goes on where it
stopped: delete the file to begin anew, or ask for some rows again.
"""

import gc
import json
import multiprocessing
import os
import resource
import signal
from multiprocessing.connection import wait

import torch

AT_ONCE = max(os.cpu_count() or 1, 2)
LIMIT_S = 120  # of one processor; a machine that has other work to do loses nothing by it
LONGEST_WAIT = 5  # limits, for one that waits and does not compute
COLLECTED = 100_000  # new objects after which cycles are looked for, in a process that soon ends


def rows_of(kinds, outcome, known, again=(), at_once=AT_ONCE, late="not built"):
    """The rows of all `kinds`, those in the file first, each written there as it is known.

    Args:
        kinds: architectures.
        outcome: what makes the row of one of them.
        known: the file.
        again: what rows are made anew: names, ends, operators; of two rows, the later counts.
        at_once: how many processes.
        late: the end of what takes longer than the limit.
    """
    rows = {kind: row for kind, row in stored(known).items() if not _named(row) & set(again)}
    known.parent.mkdir(exist_ok=True)
    left = [kind for kind in kinds if kind not in rows]
    gc.freeze()  # no child looks through the modules that it shares
    context, running = multiprocessing.get_context("fork"), {}
    with known.open("a") as file:
        while left or running:
            while left and len(running) < at_once:
                pipe, theirs = context.Pipe(duplex=False)
                child = context.Process(target=_answer, args=(outcome, left[0], theirs))
                child.start()
                theirs.close()
                running[pipe] = (left.pop(0), child)
            for row in _finished(running, late):
                rows[row["kind"]] = row
                file.write(json.dumps(row) + "\n")
                file.flush()
                print(f"{len(rows)} of {len(kinds)}: {row['kind']} {row['end']}", flush=True)
    return [rows[kind] for kind in kinds]


def stored(known):
    """The rows in a file, by architecture."""
    if not known.exists():
        return {}
    return {row["kind"]: row for row in map(json.loads, known.read_text().splitlines())}


def _answer(outcome, kind, pipe):
    """The child: one architecture, answered through the pipe."""
    gc.set_threshold(COLLECTED)
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, 2 * LIMIT_S))
    signal.alarm(LONGEST_WAIT * LIMIT_S)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    try:
        row = outcome(kind)
    except Exception as error:  # noqa: BLE001  a defect, which stands on the page
        row = {"kind": kind, "end": "fails", "why": f"{type(error).__name__}: {line(error)}"}
    pipe.send(row)


def _named(row):
    """What a row is asked for by."""
    return {row["kind"], row["end"], *row.get("untimed", ())}


def _finished(running, late):
    """The rows of children that have answered, or ended without a word."""
    for pipe in wait(list(running), timeout=1):
        kind, child = running.pop(pipe)
        try:
            row = pipe.recv()
        except EOFError:
            row = None
        child.join()
        if child.exitcode in (-signal.SIGXCPU, -signal.SIGALRM):
            row = {"kind": kind, "end": late, "why": f"takes longer than {LIMIT_S} s"}
        yield row or {"kind": kind, "end": "fails", "why": f"process ended: {child.exitcode}"}


def line(error):
    """A message on one line, cut short."""
    return " ".join(str(error).split())[:160]
