"""locks/test.txt: every distribution of the tests' environment with its hashes.

uv resolves pyproject's extras for every system and every Python that the package runs on, under
constraints.txt. It keeps what the file has, unless a constraint or a requirement says otherwise;
`locking.py --upgrade` takes the newest of what no constraint pins.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "locks" / "test.txt"
EXTRAS = ("torch", "jax", "test", "check")
"""The extras of which make test makes its environment."""
OF_CLIENTS = {"triton"}
"""Pins for the environment of clients alone: the lock's PyTorch names a version of its own."""
HEAD = """\
# The tests' environment with hashes, for every system: tests/suite/locking.py writes it.
#   pip install --require-hashes --no-deps -r locks/test.txt
#   pip install --no-deps --no-build-isolation --editable .
# PyTorch's build for Linux is the one with CUDA; another index has one without, of another hash.
"""


def constraints(text):
    """The lines of constraints.txt that concern the lock."""
    return [line for line in text.splitlines() if line.partition("==")[0] not in OF_CLIENTS]


def entries(text):
    """Each distribution of a lock, normalized: its version and its hashes."""
    found = {}
    for block in re.split(r"\n(?=\w)", text):
        head = re.match(r"([\w.-]+)==([^\s;]+)", block)
        if head:
            name = re.sub(r"[-_.]+", "-", head[1]).lower()
            found[name] = head[2], re.findall(r"--hash=sha256:([0-9a-f]{64})\b", block)
    return found


def command(pins, lock, *options):
    """The call of uv that writes `lock`."""
    return [
        *(sys.executable, "-m", "uv", "pip", "compile", "--universal", "--generate-hashes"),
        *("--python-version", "3.11", "--no-annotate", "--no-header", "--quiet"),
        *(word for extra in EXTRAS for word in ("--extra", extra)),
        *("--constraint", str(pins), "--output-file", str(lock), *options, "pyproject.toml"),
    ]


def main(options):
    """Write the lock; it stays as it was where uv finds no solution."""
    with tempfile.TemporaryDirectory() as folder:
        pins, lock = Path(folder) / "constraints.txt", Path(folder) / "lock.txt"
        text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
        pins.write_text("\n".join(constraints(text)), encoding="utf-8")
        if LOCK.exists():
            lock.write_text(LOCK.read_text(encoding="utf-8"), encoding="utf-8")
        subprocess.run(command(pins, lock, *options), cwd=ROOT, check=True)
        LOCK.parent.mkdir(exist_ok=True)
        LOCK.write_text(HEAD + lock.read_text(encoding="utf-8"), encoding="utf-8")
    print(f"wrote {LOCK.relative_to(ROOT)}: {len(entries(LOCK.read_text()))} distributions")


if __name__ == "__main__":
    main(sys.argv[1:])
