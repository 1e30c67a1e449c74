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
    """The times of the kernels of `paths` in a revision, without files that it does not have.

    The revision is unpacked into a folder, where another process checks the kernels.

    Raises:
        BadInput: no git, no repository, no such revision, or a path outside of the folder.
    """
    prefix = _git("rev-parse", "--show-prefix").decode().strip()
    commit = commit_of(revision)
    working_folder = Path.cwd().resolve()
    with tempfile.TemporaryDirectory(prefix="trnsim-") as folder:
        _unpack(_git("archive", "--format=tar", commit, in_top=True), Path(folder))
        earlier_folder = Path(folder, PurePosixPath(prefix))
        names = [_relative(path, working_folder) for path in paths]
        baseline_file = Path(folder) / f"earlier-{FILE}"
        for name in names:
            if not (earlier_folder / name).is_file():
                continue
            command = [*_CHECK, name.as_posix(), "--on", ",".join(chips)]
            command += ["--baseline", str(baseline_file), "--update"]
            command += [] if kernel is None else ["--kernel", kernel]
            # A file that fails has no earlier times; the comparison reports them as missing.
            subprocess.run(  # noqa: S603  this program itself
                command, cwd=earlier_folder, capture_output=True, check=False
            )
        baselines = read_baselines(baseline_file)
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


def commit_of(revision: str) -> str:
    """The commit that a revision names.

    Raises:
        BadInput: no git, no repository, or no such revision.
    """
    output = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    return output.decode().strip()


def _git(*arguments: str, in_top: bool = False) -> bytes:
    """The output of git in the working folder; with `in_top`, in the top folder of its repository.

    Raises:
        BadInput: git is not installed, or refuses.
    """
    command = [_GIT, *arguments]
    folder = None
    if in_top:
        folder = _git("rev-parse", "--show-toplevel").decode().strip()
    try:
        process = subprocess.run(  # noqa: S603
            command, cwd=folder, capture_output=True, check=False
        )
    except FileNotFoundError as error:
        raise BadInput("--against needs git, which is not installed") from error
    if process.returncode:
        reason = process.stderr.decode(errors="replace").strip() or f"no revision {arguments[-1]}"
        raise BadInput(
            f"--against: {reason}",
            fix="name a commit, branch or tag that the clone has: git fetch origin main; in CI "
            "check out with the whole history",
        )
    return process.stdout


def _unpack(archive: bytes, folder: Path) -> None:
    """Unpack an archive of git into a folder, without links that lead out of it."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as file:
        file.extractall(folder, filter=_inner_member)  # noqa: S202  the filter is tarfile's own


def _inner_member(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
    """The member of an archive, made safe; None for a member that is unsafe, which is left out."""
    try:
        return tarfile.data_filter(member, folder)
    except tarfile.FilterError:
        return None
