"""`make upstream`: run the public suites from local clones and write docs/conformance.md.

usage: conformance.py FOLDER [SUITE ...]

FOLDER holds the clones, named as in `SUITES`; nothing of theirs is kept.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "conformance.md"
NKI_LIBRARY = "test/integration/nkilib"
D5_FILES = (
    "core/attention/test_attention_cte.py",
    "core/cumsum/test_cumsum.py",
    "core/embeddings/test_rope.py",
    "core/embeddings/test_rope_hf.py",
    "core/max/test_cascaded_max.py",
    "core/max/test_cascaded_max_utils.py",
    "core/mlp/test_mlp_tkg.py",
    "core/output_projection/test_output_proj_tkg.py",
    "core/subkernels/test_find_nonzero_indices.py",
    "core/subkernels/test_indexed_flatten.py",
    "core/subkernels/test_layernorm_tkg.py",
    "core/subkernels/test_rmsnorm_tkg.py",
    "core/utils/test_cross_partition_copy.py",
    "core/utils/test_quantize_to_mx.py",
    "core/utils/test_tensor_view.py",
    "core/utils/test_tp_broadcast.py",
    "experimental/conv/test_depthwise_conv1d.py",
)


@dataclass
class Suite:
    """A public suite: where it lies, and how its own tests are started."""

    name: str
    clone: str
    what: str
    arguments: list[str]
    cwd: str = ""
    environment: dict[str, str] = field(default_factory=dict)


def nki_library(name, what, *arguments):
    """A part of nki-library (tag 2.29), through its own harness."""
    paths = ":".join([str(HERE), "src", "src/nkilib_src", "."])
    return Suite(
        name,
        "nki-library",
        what,
        [
            *("-p", "nki_library_plugin", "--test-mode", "simulation"),
            *("--output-directory", tempfile.mkdtemp(), "--force-local-cleanup"),
            *arguments,
            *(f"{NKI_LIBRARY}/{file}" for file in D5_FILES),
        ],
        cwd="nki-library",
        environment={"PYTHONPATH": paths},
    )


SUITES = (
    Suite("D1", "aws-neuron-sdk", "nki/examples", [str(HERE / "test_neuron_examples.py")]),
    nki_library("D5 fast", "16 kernels, `-m fast`", "-m", "fast"),
    nki_library("D5 fast trn3", "the same on trn3", "-m", "fast", "--platform-target", "trn3"),
    Suite("D6", "trnfft, trnsparse", "tests/test_nki_sim.py", [str(HERE / "test_trnsci.py")]),
    Suite("D7", "autocomp", "trn-tutorial-nki2", [str(HERE / "test_autocomp.py")]),
)


def run(suite, folder):
    """Test cases of one suite: (name, outcome, reason) each."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", "--junitxml", str(report)]
        environment = {**os.environ, "TRNSIM_UPSTREAM": str(folder), **suite.environment}
        subprocess.run(
            [*command, *suite.arguments],
            cwd=folder / suite.cwd if suite.cwd else ROOT,
            env=environment,
            check=False,
        )
        return list(cases(ET.parse(report)))  # noqa: S314  our own report


def cases(tree):
    """The test cases of a JUnit report."""
    for case in tree.iter("testcase"):
        outcome, reason = "passed", ""
        for child in case:
            if child.tag in ("failure", "error", "skipped"):
                outcome = "skipped" if child.tag == "skipped" else "failed"
                reason = next(iter((child.get("message") or "").splitlines()), "")[:160]
        yield f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name')}", outcome, reason


def commit(folder, clone):
    """The clones' commits, short."""
    git = shutil.which("git") or "git"
    found = [
        subprocess.run(
            [git, "-C", str(folder / name.strip()), "rev-parse", "--short", "HEAD"],
            capture_output=True,
            text=True,
            check=False,
        ).stdout.strip()
        for name in clone.split(",")
    ]
    return ", ".join(found)


HEAD = """# Public suites

Written by `make upstream UPSTREAM=folder`, from unmodified clones. The groups are those to develop
against; other public kernels are kept unread. The older generation of NKI (`neuronxcc.nki`) is not
emulated yet, so its groups are not listed.

| group | repository | commit | what | cases | passed | failed | skipped by the suite |
|---|---|---|---|---|---|---|---|
"""


def page(results, folder):
    """docs/conformance.md."""
    rows, notes = [], []
    for suite, found in results:
        count = Counter(outcome for _, outcome, _ in found)
        cells = (
            suite.name,
            suite.clone,
            commit(folder, suite.clone),
            suite.what,
            len(found),
            count["passed"],
            count["failed"],
            count["skipped"],
        )
        rows.append(f"| {' | '.join(map(str, cells))} |")
        notes += [f"- {suite.name} `{name}`: {why}" for name, how, why in found if how == "failed"]
        skips = Counter(why for _, how, why in found if how == "skipped")
        notes += [f"- {suite.name}: {number} skipped: {why}" for why, number in skips.items()]
    notes = notes or ["Nothing."]
    heading = "## What did not pass, and what the suites skip"
    return HEAD + "\n".join([*rows, "", heading, "", *notes, ""])


def main():
    """Run the suites that were named, or all, and write the page."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1]).resolve()
    wanted = sys.argv[2:]
    chosen = [s for s in SUITES if not wanted or s.name.split()[0] in wanted or s.name in wanted]
    results = [(suite, run(suite, folder)) for suite in chosen]
    text = page(results, folder)
    unfinished = PAGE.with_suffix(".part")
    unfinished.write_text(text)
    unfinished.replace(PAGE)
    print(text)


if __name__ == "__main__":
    main()
