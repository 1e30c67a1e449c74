"""`make release`: dist with the wheel, the source, a bill of materials (CycloneDX) and hashes.

The bill lists what `pip install trnsim` installs beside trnsim, read from the metadata of an
environment in which nothing else is. Nothing is uploaded.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
HASHES = "SHA256SUMS"


def started(*words):
    """A command of Python, which must succeed; it sees no path of the caller's."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([sys.executable, "-P", *words], cwd=ROOT, env=environment, check=True)


def build(dist):
    """The wheel and the source distribution of this tree, in an empty folder."""
    dist.mkdir(parents=True, exist_ok=True)
    for old in dist.iterdir():
        old.unlink()
    started("-c", "from hatchling.cli import hatchling; hatchling()", "build", "-d", str(dist))
    (wheel,) = dist.glob("*.whl")
    return wheel


def bill(wheel, version):
    """The bill of materials of a wheel, beside it."""
    file = wheel.with_name(f"trnsim-{version}.cdx.json")
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=False)
        pip = ("-m", "pip", "--disable-pip-version-check", "--python", folder, "install", "-q")
        started(*pip, "--constraint", "constraints.txt", str(wheel))
        written = ("--pyproject", "pyproject.toml", "--mc-type", "library", "-o", str(file))
        started("-m", "cyclonedx_py", "environment", "--output-reproducible", *written, folder)
    return file


def hashes(dist):
    """A line for each file, as sha256sum prints and reads them."""
    files = sorted(path for path in dist.iterdir() if path.name != HASHES)
    return "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files
    )


def main():
    """Build everything that is published."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dist", type=Path, default=DIST, help="the folder, which is emptied")
    dist = parser.parse_args().dist
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    hook = project["tool"]["hatch"]["metadata"]["hooks"]["custom"]
    if "repository" not in hook:
        print("no repository is set in pyproject.toml: the package will have no URLs and no links")
    bill(build(dist), project["project"]["version"])
    (dist / HASHES).write_text(hashes(dist), encoding="utf-8")
    print("".join(f"{dist / path.name}\n" for path in sorted(dist.iterdir())), end="")


if __name__ == "__main__":
    main()
