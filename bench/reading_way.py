"""How far a reader travels who follows a command through the source.

A command runs in a process of its own with an empty cache, and every function of trnsim that it
calls is noted once, when it is first called: the order in which a reader meets them. A *change* is
a function that lies in another folder than the one before it; a *return* is a change into a folder
that the reader has left before: a function that goes on after it asked another folder is one. A
*call back* is a call into another folder of which a function still waits for the answer: the reader
has to hold both ends at once. Lambdas, comprehensions and what runs while a module is imported are
not counted; searches run in this process.

`PYTHONPATH=OTHER/src python bench/reading_way.py` follows another checkout; with names of commands
behind it, those alone. `--folders COMMAND` shows to which folders one command returns, and how
often; `--way COMMAND` its functions, folder after folder, and its calls back.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
LLAMA = str(EXAMPLES / "llama-3.1-8b.json")
COMMANDS = {
    "run": ("run", str(EXAMPLES / "attention.py")),
    "compile": ("compile", str(EXAMPLES / "encoder.py")),
    "plan train": ("plan", "train", LLAMA, "--tokens", "1e10", "--on", "trn2"),
    "plan serve": ("plan", "serve", LLAMA, "--on", "trn2", "--request-rate", "4"),
    "assess": ("assess", str(EXAMPLES / "inventory.csv")),
}


class Follower:
    """A profile function of Python that notes the functions of a package in the order of calls.

    Attributes:
        functions: the folder and the name of each function, by its code.
        calls_back: pairs of codes of which the second's folder waits for the first.
    """

    def __init__(self, package: str) -> None:
        self.package = package
        self.functions: dict[Any, tuple[str, str]] = {}
        self.calls_back: set[tuple[Any, Any]] = set()
        self._noted: set[int] = set()
        self._asked: set[tuple[int, int]] = set()
        self._importing: list[Any] = []
        # By identity: the hash of a code is that of its constants and instructions, each time.
        self._folders: dict[int, tuple[Any, str | None]] = {}

    def __call__(self, frame: Any, event: str, _: object) -> None:
        """Note a call or a return."""
        if event == "return":
            if self._importing and self._importing[-1] is frame:
                self._importing.pop()
        elif event == "call":
            if frame.f_code.co_name == "<module>":
                self._importing.append(frame)
            elif not self._importing:
                self._note(frame)

    def _note(self, frame: Any) -> None:
        """Note the call of a function that is followed."""
        code = frame.f_code
        folder = self._folder(code)
        if folder is None:
            return
        if id(code) not in self._noted:
            self._noted.add(id(code))
            self.functions[code] = folder, code.co_qualname
        callers = self._callers(frame)
        caller = next(callers, None)
        if caller is None or (id(caller), id(code)) in self._asked:
            return
        self._asked.add((id(caller), id(code)))
        if self._folder(caller) != folder and folder in map(self._folder, callers):
            self.calls_back.add((caller, code))

    def _folder(self, code: Any) -> str | None:
        """The folder of a function of the package; None for other code."""
        if id(code) not in self._folders:
            is_followed = code.co_filename.startswith(self.package)
            is_followed = is_followed and not code.co_name.startswith("<")
            folder = os.path.relpath(Path(code.co_filename).parent, self.package)
            self._folders[id(code)] = code, folder if is_followed else None
        return self._folders[id(code)][1]

    def _callers(self, frame: Any) -> Iterator[Any]:
        """Codes of the package that wait for a frame, the nearest first."""
        waiting = frame.f_back
        while waiting is not None:
            if self._folder(waiting.f_code) is not None:
                yield waiting.f_code
            waiting = waiting.f_back


def followed_here(arguments: tuple[str, ...]) -> dict[str, Any]:
    """The functions that a command calls, by folder and name in their order, and its calls back."""
    main = import_module("trnsim.cli").main
    trnsim = import_module("trnsim")
    follower = Follower(str(Path(trnsim.__file__).parent))
    os.cpu_count = lambda: 1
    sys.argv = ["trnsim", *arguments]
    threading.setprofile(follower)
    sys.setprofile(follower)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            main()
    except SystemExit as ended:
        if ended.code:
            raise
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {
        "functions": list(follower.functions.values()),
        "calls_back": [
            [*follower.functions[caller], *follower.functions[asked]]
            for caller, asked in follower.calls_back
        ],
    }


def returns(folders: list[str]) -> Counter[str]:
    """How often each folder is entered again after it was left."""
    entered = Counter(folders[:1])
    entered.update(after for before, after in pairwise(folders) if after != before)
    return Counter({folder: times - 1 for folder, times in entered.items() if times > 1})


def figures(way: dict[str, Any]) -> dict[str, int]:
    """Functions, rooms, folders, changes of folder, returns and calls back of one way."""
    folders = [folder for folder, _ in way["functions"]]
    return {
        "functions": len(folders),
        "rooms": len({folder.partition(os.sep)[0] for folder in folders}),
        "folders": len(set(folders)),
        "changes": sum(before != after for before, after in pairwise(folders)),
        "returns": returns(folders).total(),
        "calls back": len(way["calls_back"]),
    }


def told(way: dict[str, Any]) -> Iterator[str]:
    """The functions of a way, a line for each stay in a folder, then its calls back."""
    known: set[str] = set()
    for folder, stay in groupby(way["functions"], key=itemgetter(0)):
        names = " ".join(name for _, name in stay)
        yield f"{'returns to' if folder in known else 'enters':10} {folder}: {names}"
        known.add(folder)
    for place, caller, folder, asked in sorted(way["calls_back"]):
        yield f"calls back {place} {caller} -> {folder} {asked}"


def followed(command: str) -> dict[str, Any]:
    """What `followed_here` says of one of `COMMANDS`, in a process of its own, an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TRNSIM_CACHE": folder}
        reply = subprocess.run(  # noqa: S603  this file
            [sys.executable, __file__, "--here", command],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return dict(json.loads(reply.stdout))


def main() -> None:
    """Print the figures of commands, or the folders or the way of one."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("commands", nargs="*", metavar="COMMAND", help=", ".join(COMMANDS))
    parser.add_argument("--folders", choices=COMMANDS, help="where one command returns to")
    parser.add_argument("--way", choices=COMMANDS, help="what one command calls, in order")
    parser.add_argument("--here", choices=COMMANDS, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.here:
        print(json.dumps(followed_here(COMMANDS[chosen.here])))
        return
    if chosen.folders:
        folders = [folder for folder, _ in followed(chosen.folders)["functions"]]
        for folder, times in returns(folders).most_common():
            print(f"{times:4} {folder}")
        return
    if chosen.way:
        print(*told(followed(chosen.way)), sep="\n")
        return
    asked = chosen.commands or COMMANDS
    ways = {command: figures(followed(command)) for command in asked}
    print(" " * 12 + "".join(f"{name:>11}" for name in next(iter(ways.values()))))
    for command, counted in ways.items():
        print(f"{command:12}" + "".join(f"{number:>11}" for number in counted.values()))


if __name__ == "__main__":
    main()
