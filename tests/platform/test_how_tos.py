"""Every block of the how-tos runs, and prints what the page shows."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from found_programs import free_port
from instance_shells import REFUSED

DOCS = Path(__file__).parents[2] / "docs"
SECONDS = 250
END = "--- the end of a command"
# Page, blocks, commands whose output is shown, programs of Debian, whether it needs a namespace.
PAGES = [
    ("how-to-ray.md", 2, 1, (), True),
    ("how-to-datadog.md", 4, 1, (), False),
    ("how-to-prometheus.md", 6, 6, ("prometheus", "promtool"), False),
    ("how-to-sagemaker.md", 5, 2, (), True),
]


def blocks(text):
    """Language and body of each block."""
    return re.findall(r"```(\w+)\n(.*?)```", text, re.DOTALL)


def commands(body):
    """Commands of a console block and what stands below each."""
    return [part.partition("\n")[::2] for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]]


@pytest.mark.parametrize(("page", "number", "shown", "programs", "needs_mounts"), PAGES)
def test_a_page_prints_what_it_shows(page, number, shown, programs, needs_mounts, tmp_path):
    if needs_mounts and REFUSED:
        pytest.skip(f"no private mount namespace here: {REFUSED}")
    for name in programs:
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed (Debian: prometheus)")
    text = (DOCS / page).read_text(encoding="utf-8")
    for port in ("8000", "9090"):
        text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{(new := free_port())}")
        text = text.replace(f"--port {port}", f"--port {new}")
    found = blocks(text)
    assert len(found) == number
    script = ["trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT"]
    expected = []
    for language, body in found:
        if language in ("python", "yaml"):
            name = re.match(r"# (\S+)\n", body)[1]
            (tmp_path / name).write_text(body)
        elif language == "sh":
            script.append(body)
        else:
            for command, output in commands(body):
                script += [command, f"echo '{END}'"]
                expected.append(output)
    assert len(expected) == shown
    done = subprocess.run(
        [shutil.which("bash"), "-c", "\n".join(script)],
        cwd=tmp_path,
        env=os.environ | {"TRNSIM_PYTHON": sys.executable},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.stdout.split(f"{END}\n")[:-1], done.stderr) == (expected, "")
