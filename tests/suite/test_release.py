"""What is published: hashes that sha256sum accepts, and a bill of materials of the wheel."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import release

ROOT = Path(__file__).parents[2]


def test_hashes_are_of_every_file_but_their_own(tmp_path):
    (tmp_path / "b.whl").write_bytes(b"b")
    (tmp_path / "a.json").write_bytes(b"a")
    (tmp_path / release.HASHES).write_text("old")
    a, b = (hashlib.sha256(each).hexdigest() for each in (b"a", b"b"))
    assert release.hashes(tmp_path) == f"{a}  a.json\n{b}  b.whl\n"


@pytest.mark.slow
def test_a_build_empties_its_folder_and_has_no_path_of_the_machine(tmp_path):
    pytest.importorskip("hatchling")
    (tmp_path / "old.whl").touch()
    wheel = release.build(tmp_path)
    assert [path.suffix for path in sorted(tmp_path.iterdir())] == [".whl", ".gz"]
    assert wheel.name.startswith("trnsim-")


@pytest.mark.slow
def test_a_release_has_a_bill_of_what_the_wheel_requires(tmp_path):
    python = ROOT / ".venv-release" / "bin" / "python"
    if not python.exists():
        pytest.skip("make release makes .venv-release, which has CycloneDX's program")
    ran = subprocess.run(
        [python, "tests/suite/release.py", "--dist", tmp_path],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    (file,) = tmp_path.glob("*.cdx.json")
    stored = json.loads(file.read_text())
    assert stored["bomFormat"] == "CycloneDX"
    assert stored["metadata"]["component"]["name"] == "trnsim"
    names = {component["name"].lower().replace("_", "-") for component in stored["components"]}
    assert {"greenlet", "ml-dtypes", "numpy", "pyyaml", "typer"} <= names
    assert not names & {"torch", "jax", "pip", "trnsim", "hatchling"}
    assert all(component["licenses"] for component in stored["components"])
    assert str(tmp_path.parent) not in file.read_text()
    if shutil.which("sha256sum"):
        check = ["sha256sum", "--check", release.HASHES]
        subprocess.run(check, check=True, cwd=tmp_path, stdout=subprocess.DEVNULL)


def test_the_program_says_what_it_makes():
    command = [sys.executable, str(ROOT / "tests" / "suite" / "release.py"), "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "bill of" in shown
