"""Store the answers of the real torch_xla: run this file with an environment that has it.

    pip install torch==2.9.0 torch_xla==2.9.0
    PJRT_DEVICE=CPU python tests/xla/oracle/store_answers.py [MODULE ...]

Each program has a process of its own, so that no program finds another's compilations.
"""

import importlib
import json
import multiprocessing
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "programs")]

from oracle_run import answer_of, programs_of


def run(module, name, pipe):
    """Send a program's answer."""
    pipe.send(answer_of(programs_of(importlib.import_module(module))[name]))


def answer_in_a_process(module, name):
    """A program's answer from a forked process."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=run, args=(module, name, theirs))
    process.start()
    theirs.close()
    try:
        answer = ours.recv()
    except EOFError:
        answer = {"ended": "the process ended without an answer"}
    process.join()
    return answer


def main(modules):
    """Write the answers of some modules, or of all."""
    os.environ.setdefault("PJRT_DEVICE", "CPU")
    for path in sorted((HERE / "programs").glob("*.py")):
        if modules and path.stem not in modules:
            continue
        if os.fork() == 0:  # the next module may have other variables
            module = importlib.import_module(path.stem)
            answers = {name: answer_in_a_process(path.stem, name) for name in programs_of(module)}
            text = json.dumps(answers, indent=1, sort_keys=True)
            (HERE / "answers" / f"{path.stem}.json").write_text(f"{text}\n", encoding="utf-8")
            os._exit(0)
        _, status = os.wait()
        print(path.stem, "done" if status == 0 else f"ended with {status}")


if __name__ == "__main__":
    main(sys.argv[1:])
