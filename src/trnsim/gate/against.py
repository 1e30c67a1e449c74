"""The times of kernels in another revision of their git repository, by this trnsim."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from trnsim.errors import BadInput
from trnsim.gate.baselines import FILE, Baselines, read_baselines

_GIT: Final = "git"
_CHECK: Final = (sys.executable, "-m", "trnsim", "check")


def earlier_baselines(
    revision: str, paths: Sequence[Path], chips: Sequence[str], kernel: str | None = None
) -> Baselines:
    """The times of the kernels of `paths` in a revision; files that it does not have are left out.

    Its files are unpacked into a folder of their own, where another process checks the kernels.

    Raises:
        BadInput: no git, no repository, no such revision, or a path outside of the folder.
    """
    prefix = _git("rev-parse", "--show-prefix").decode().strip()
    commit = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    folder_of_names = Path.cwd().resolve()
    with tempfile.TemporaryDirectory(prefix="trnsim-") as folder:
        _unpack(_git("archive", "--format=tar", commit.decode().strip(), top=True), Path(folder))
        earlier = Path(folder, PurePosixPath(prefix))
        names = [_relative(path, folder_of_names) for path in paths]
        present = [name for name in names if (earlier / name).is_file()]
        stored = Path(folder) / f"earlier-{FILE}"
        for name in present:
            command = [*_CHECK, name.as_posix(), "--on", ",".join(chips)]
            command += ["--baseline", str(stored), "--update"]
            command += [] if kernel is None else ["--kernel", kernel]
            # A file that fails has no earlier times; the comparison reports them as missing.
            subprocess.run(  # noqa: S603  this program itself
                command, cwd=earlier, capture_output=True, check=False
            )
        baselines = read_baselines(stored)
    baselines.path = Path(f"revision {revision}")
    return baselines


def _relative(path: Path, folder: Path) -> Path:
    absolute = path.resolve()
    if not absolute.is_relative_to(folder):
        raise BadInput(
            f"--against with {path}, which lies outside of the folder {folder}",
            fix="call trnsim check in the folder of the repository",
        )
    return absolute.relative_to(folder)


def _git(*arguments: str, top: bool = False) -> bytes:
    """The output of git, in the working folder or the repository's.

    Raises:
        BadInput: git is not installed, or refuses.
    """
    command = [_GIT, *arguments]
    folder = None
    if top:
        folder = _git("rev-parse", "--show-toplevel").decode().strip()
    try:
        done = subprocess.run(  # noqa: S603
            command, cwd=folder, capture_output=True, check=False
        )
    except FileNotFoundError as error:
        raise BadInput("--against needs git, which is not installed") from error
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip() or f"no revision {arguments[-1]}"
        raise BadInput(
            f"--against: {why}",
            fix="name a commit, branch or tag that the clone has: git fetch origin main; in CI "
            "check out with the whole history",
        )
    return done.stdout


def _unpack(stored: bytes, folder: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(stored)) as archive:
        archive.extractall(folder, filter="data")
