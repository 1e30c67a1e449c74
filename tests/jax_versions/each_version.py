"""The platform and the importer of JAX's programs with each tested minor version of JAX.

An environment for each version is made by make; a failing version does not stop the next.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
VERSIONS = ("0.8", "0.9", "0.10")
RUNS = (("tests/jax_versions", {}), ("tests/jax/stablehlo", {"JAX_PLATFORMS": "cpu"}))
"""Folders of tests, and what the environment has besides."""


def passes(version):
    """True if all runs pass with this minor version of JAX."""
    environment = f".venv-jax-{version}"
    make = os.environ.get("MAKE", "make")
    subprocess.run([make, f"{environment}/.made"], cwd=ROOT, check=True)
    python = str(ROOT / environment / "bin" / "python")
    runs = [
        subprocess.run(
            [python, "-m", "pytest", "--quiet", folder],
            cwd=ROOT,
            env=os.environ | variables,
            check=False,
        )
        for folder, variables in RUNS
    ]
    return all(run.returncode == 0 for run in runs)


if __name__ == "__main__":
    failing = [version for version in sys.argv[1:] or VERSIONS if not passes(version)]
    sys.exit(f"fails with JAX {', '.join(failing)}" if failing else 0)
