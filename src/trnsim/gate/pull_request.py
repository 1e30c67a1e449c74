"""The comment of a pull request: changes of its kernels, job specs and plans since its base.

    python -m trnsim.gate.pull_request BASE [COMMENT.md]

    TRNSIM_KERNELS  globs of files with kernels: trnsim check --against BASE
    TRNSIM_JOBS     globs of job specs and stored plans: trnsim job diff
    TRNSIM_ON       chips of the kernels; trn2 without
    TRNSIM_MAX_US   the longest time of a kernel that passes

It writes the comment, and ends with status 1 if a kernel fails. The action of GitHub and the job of
GitLab call it (docs/how-to-gate.md).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from trnsim import files
from trnsim.document.answer import Document, MonospaceLines, Note, Section
from trnsim.document.markdown import markdown
from trnsim.errors import BadInput
from trnsim.gate.against import commit_of

MARK: Final = "<!-- trnsim -->"
"""The first line of the comment, by which a later push finds and edits it."""
_COMMENT: Final = "trnsim-comment.md"
_TRNSIM: Final = (sys.executable, "-m", "trnsim")
_WRONG_INPUT: Final = 2


def comment(base: str, settings: Mapping[str, str]) -> tuple[str, int]:
    """The comment on the files that the variables name, and the status of their checks.

    Raises:
        BadInput: a glob is not legal, or the clone does not have the base.
    """
    parts: list[str] = []
    files_of: dict[str, list[Path]] = {}
    for variable in ("TRNSIM_KERNELS", "TRNSIM_JOBS"):
        globs = settings.get(variable, "")
        files_of[variable] = _matching_files(variable, globs)
        if globs.strip() and not files_of[variable]:
            parts.append(_titled_markdown("trnsim", f"no file matches {variable}: {globs}"))
    kernels, jobs = files_of.values()
    status = 0
    with tempfile.TemporaryDirectory(prefix="trnsim-") as folder:
        if kernels:
            options = ["--against", base]
            for option, variable in (("--on", "TRNSIM_ON"), ("--max-us", "TRNSIM_MAX_US")):
                if settings.get(variable):
                    options += [option, settings[variable]]
            text, status = _answer(["check", *map(str, kernels), *options], Path(folder))
            parts.append(text)
        if jobs:
            commit_of(base)  # refuses a base that the clone does not have
        for job in jobs:
            text, job_status = _job(base, job, Path(folder))
            parts.append(text)
            status = max(status, job_status)
    if not any(parts):
        parts = [_titled_markdown("trnsim", "no kernel, job spec or plan of this change differs")]
    return "\n".join([MARK, *filter(None, parts)]), status


def _matching_files(variable: str, globs: str) -> list[Path]:
    """The files that the globs of a variable name, each once, in order.

    Raises:
        BadInput: one of them is no glob, or is not relative.
    """
    paths: set[Path] = set()
    for glob in globs.split():
        try:
            paths.update(path for path in Path().glob(glob) if path.is_file())
        except (NotImplementedError, ValueError) as error:
            raise BadInput(
                f"{variable} has {glob!r}: {error}",
                fix="write a glob from the top of the repository: kernels/**/*.py",
            ) from error
    return sorted(paths)


def _job(base: str, job: Path, folder: Path) -> tuple[str, int]:
    """(Markdown, status) of `job diff` for a spec, or of `job price` for a new spec.

    The text is empty for a spec that did not change.
    """
    base_file = subprocess.run(  # noqa: S603
        ["git", "show", f"{base}:./{job.as_posix()}"],  # noqa: S607  the user's own git
        capture_output=True,
        check=False,
    )
    if base_file.returncode:
        return _answer(["job", "price", str(job)], folder)
    if base_file.stdout == job.read_bytes():
        return "", 0
    before = folder / "base" / job
    files.write(before, base_file.stdout, parents=True)
    return _answer(["job", "diff", str(before), str(job)], folder)


def _answer(command: Sequence[str], folder: Path) -> tuple[str, int]:
    """(Markdown, status) of a command; its error is the text if it has no answer."""
    output = folder / "answer.md"
    output.unlink(missing_ok=True)
    run = subprocess.run(  # noqa: S603  this program itself
        [*_TRNSIM, *command, "--output", str(output)], capture_output=True, text=True, check=False
    )
    if output.exists():
        return files.read_text(output).replace(f"{folder.as_posix()}/", ""), run.returncode
    return _titled_markdown(f"trnsim {command[0]}", run.stderr.strip() or run.stdout.strip()), (
        run.returncode or _WRONG_INPUT
    )


def _titled_markdown(title: str, text: str) -> str:
    is_short = "\n" not in text
    blocks = [Note(text) if is_short else MonospaceLines(text)]
    return markdown(Document(title, {}, [Section("", blocks)]))


def main(arguments: Sequence[str]) -> int:
    """Write the comment; the status of the checks."""
    if len(arguments) not in (1, 2):
        sys.stderr.write("usage: python -m trnsim.gate.pull_request BASE [COMMENT.md]\n")
        return _WRONG_INPUT
    try:
        text, status = comment(arguments[0], os.environ)
    except BadInput as error:
        text, status = f"{MARK}\n{_titled_markdown('trnsim', str(error))}", _WRONG_INPUT
    files.write(arguments[1] if len(arguments) > 1 else _COMMENT, text)
    return status


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
