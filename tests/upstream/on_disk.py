"""Run 25 programs of torch_xla from clones, unmodified, and write docs/generated/on-disk.md.

usage: python tests/upstream/on_disk.py FOLDER [--programs 1 2 ...] [--again]

FOLDER holds the clones, as for conformance.py. The table tests/upstream/on_disk.json has for each
program its repository, commit and file; weights and data that are staged (on_disk_stage.py), its
arguments and ranks, environment, further files, packages of an own version, and a time limit. Each
runs in its own process group and folder below build/on-disk, where its outcome is kept: a stopped
run goes on, `--again` forgets. ON_DISK_PACKAGES names a folder of folders of packages, by the name
in the table: `pip install --no-deps --target FOLDER/transformers-4.52/site-packages ...` makes one.

Values: `own` is what the program prints of its own comparison. `cpu` has edits of its text with
which the same program runs on the CPU alone, and `values` what both print.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from on_disk_page import page

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
TABLE = HERE / "on_disk.json"
BUILD = ROOT / "build" / "on-disk"
PAGE = ROOT / "docs" / "generated" / "on-disk.md"
PACKAGES = "ON_DISK_PACKAGES"
GRACE_S = 20
"""Seconds to write the figures in, for a program that is stopped."""
REFERENCE_LIMIT_S = 900
FIGURE = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"


def rows():
    """The programs."""
    return json.loads(TABLE.read_text(encoding="utf-8"))


def extract(folder, row, work):
    """The program's folder, its further ones and those beside it, from their commits, in `work`."""
    for other in row.get("beside", []):
        extract(folder, other, work)
    clone = folder / row["repository"].rpartition("/")[2]
    paths = row.get("folders") or [str(Path(row["file"]).parent)]
    archive = subprocess.Popen(
        ["git", "-C", str(clone), "archive", row["commit"], *paths],  # noqa: S607
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # a partial clone lacks large files of other folders
    )
    subprocess.run(["tar", "-x", "-C", str(work)], stdin=archive.stdout, check=True)  # noqa: S607
    if archive.wait():
        raise SystemExit(f"{clone} has no {', '.join(paths)} at {row['commit']}")


def notebook(path, number):
    """The code of a notebook as a program; its commands to a shell and to IPython are left out."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    lines = "\n\n".join(code).splitlines()
    kept = [re.sub(r"^(\s*)[%!].*", r"\1pass", line) for line in lines]
    program = path.with_name(f"notebook_{number}.py")
    program.write_text("\n".join(kept) + "\n", encoding="utf-8")
    return program


def environment(row, work, figures):
    """The variables of the program's process; `figures` is None for the run on the CPU."""
    variables = dict(os.environ, PYTHONUNBUFFERED="1", OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1",
                     TRNSIM_STATE="off", HOME=str(work / "home"))  # fmt: skip
    (work / "home").mkdir(exist_ok=True)
    paths = [str(HERE / "on_disk_hook"), *(str(work / path) for path in row.get("path", []))]
    packages = os.environ.get(PACKAGES)
    paths += [
        str(Path(packages or "packages") / name / "site-packages")
        for name in row.get("packages", [])
    ]
    variables["PYTHONPATH"] = os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])
    if figures:
        figures.mkdir(exist_ok=True)
        variables["ON_DISK_FIGURES"] = str(figures)
    return variables | row.get("environment", {})


def command(row, program, *, is_reference=False):
    """The words of the program's start."""
    python = [sys.executable]
    ranks = row.get("ranks", 0)
    if row.get("launcher") == "torchrun" and not (is_reference and ranks == 0):
        python += ["-m", "torch.distributed.run", f"--nproc_per_node={ranks or 1}",
                   f"--master_port={29600 + row['number']}"]  # fmt: skip
    return [*python, program.name, *map(str, row.get("arguments", []))]


def run(words, folder, variables, limit_s, log):
    """The exit status, or None past the limit; and the seconds."""
    begun = time.monotonic()
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(words, cwd=folder, env=variables, stdout=output,
                                   stderr=subprocess.STDOUT, start_new_session=True)  # fmt: skip
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            status = None
            os.killpg(process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return status, time.monotonic() - begun


def outcome(folder, row):
    """How a program ran."""
    work = BUILD / f"{row['number']:02d}"
    if work.is_dir():
        subprocess.run(["rm", "-rf", str(work)], check=True)  # noqa: S607
    work.mkdir(parents=True)
    extract(folder, row, work)
    program = work / row["file"]
    place = work / row["in"] if "in" in row else program.parent
    variables = environment(row, work, work / "figures")
    plain = environment(row, work, None)
    for stage in row.get("stage", []):
        words = [sys.executable, str(HERE / "on_disk_stage.py"), *stage]
        subprocess.run(words, cwd=place, env=plain | {"TRNSIM_AUTOLOAD": "0"}, check=True)
    if program.suffix == ".ipynb":
        program = notebook(program, row["number"])
    result = {"number": row["number"]}
    limit_s = row["limit_s"]
    status, took_s = run(command(row, program), place, variables, limit_s, work / "log.txt")
    result |= {"status": status, "wall_s": round(took_s, 1)}
    result["figures"] = [
        json.loads(path.read_text(encoding="utf-8"))
        for path in sorted((work / "figures").glob("*.json"))
    ]
    text = (work / "log.txt").read_text(encoding="utf-8", errors="replace")
    result["is_running"] = status == 0 or (status is None and bool(row.get("endless")))
    result["own"] = [bool(re.search(pattern, text)) for pattern in row.get("own", [])]
    if "counted" in row:
        result["counted"] = len(re.findall(row["counted"], text))
    result["pairs"] = pairs(row, text)
    if result["is_running"] and "cpu" in row:
        result["values"] = reference(row, program, place, plain, text, work)
    result["last"] = [line for line in text.splitlines() if line.strip()][-12:]
    return result


def pairs(row, text):
    """The largest difference of values of the CPU and of the device that the program prints."""
    results = []
    for left, right in row.get("pairs", []):
        numbers = [
            [float(each) for found in re.findall(pattern, text) for each in
             re.findall(FIGURE, found)] for pattern in (left, right)
        ]  # fmt: skip
        if not numbers[0] or len(numbers[0]) != len(numbers[1]):
            results.append(None)
            continue
        results.append(max(abs(a - b) for a, b in zip(*numbers, strict=True)))
    return results


def reference(row, program, place, variables, text, work):
    """Values that the program prints, beside those of the same program on the CPU."""
    source = program.read_text(encoding="utf-8")
    for old, new in row["cpu"]:
        if old not in source:
            raise SystemExit(f"{row['file']}: no {old!r} to edit")
        source = source.replace(old, new)
    edited = program.with_name(f"cpu_{program.name}")
    edited.write_text(source, encoding="utf-8")
    log = work / "cpu.txt"
    words = command(row, edited, is_reference=True)
    status, _ = run(words, place, variables, REFERENCE_LIMIT_S, log)
    other = log.read_text(encoding="utf-8", errors="replace")
    if status != 0:
        return {"fault": [line for line in other.splitlines() if line.strip()][-3:]}
    found = [[float(value) for value in re.findall(row["values"], log)] for log in (text, other)]
    return {"device": found[0], "cpu": found[1]}


def main():
    """Run what has no outcome yet; write the page if all have one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--programs", nargs="*", type=int, default=())
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    outcomes = {}
    for row in rows():
        path = BUILD / f"{row['number']:02d}.json"
        is_chosen = not options.programs or row["number"] in options.programs
        if is_chosen and (options.again or not path.is_file()):
            path.write_text(json.dumps(outcome(options.folder, row), indent=1), encoding="utf-8")
        if path.is_file():
            outcomes[row["number"]] = json.loads(path.read_text(encoding="utf-8"))
            if is_chosen:
                each = outcomes[row["number"]]
                print(row["number"], row["file"], "runs" if each["is_running"] else "stops",
                      f"{each['wall_s']} s", flush=True)  # fmt: skip
    if len(outcomes) == len(rows()):
        PAGE.write_text(page(rows(), outcomes), encoding="utf-8")
    else:
        print(f"{len(rows()) - len(outcomes)} programs have no outcome yet: no page is written")


if __name__ == "__main__":
    main()
