"""``trnsim report-bug``: what a stranger needs to find a fault, without the user's values."""

from __future__ import annotations

import os
import platform
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import IO, Annotated, Any, Final

import typer

import trnsim
from trnsim import files
from trnsim.cli import COMMANDS
from trnsim.cli.options import parser, time_limit_option
from trnsim.cli.parsing import ENDS_AT_PROGRAM
from trnsim.cli.report_files import answering
from trnsim.document.answer import Document, MonospaceLines, Note, Section, label_table
from trnsim.errors import BadInput
from trnsim.formatting import enumerated
from trnsim.redaction import KINDS, redacted, redacted_error
from trnsim.user_traceback import FULL_TRACEBACK
from trnsim.version import VERSION

app = parser()

_NAME: Final = "report-bug"
_PACKAGES: Final = ("numpy", "ml_dtypes", "greenlet", "PyYAML", "typer", "torch", "jax", "pyarrow")
_TAIL_BYTES: Final = 65_536
_TAIL_LINES: Final = 200
_ENDLESS: Final = ("mcp", "lsp", "shell", "neuron-top")
"""Commands that wait for a person or a client."""
_START: Final = """
import sys, traceback
sys.argv[0] = "trnsim"
from trnsim.cli import app
from trnsim.errors import EmulatorError
try:
    app()
except EmulatorError:
    traceback.print_exc()
    sys.exit(2)
"""
"""Source that runs a command line and prints the traceback of each error."""
_PRIVACY_NOTE: Final = (
    "Nothing is sent. Read the report before you pass it on: words stay that trnsim's own source "
    "has, and whole numbers of up to six digits."
)
_DIGEST_DIGITS: Final = 16


@app.command(_NAME, context_settings=ENDS_AT_PROGRAM)
@answering
def report_bug(
    *,
    command: Annotated[
        list[str] | None,
        typer.Argument(
            help="The command of trnsim that fails, which is run once more.",
            metavar="[-- COMMAND [ARGS]...]",
        ),
    ] = None,
    error: Annotated[
        Path | None,
        typer.Option(help="Text of an error that was kept, for no command.", metavar="FILE"),
    ] = None,
    time_limit: Annotated[float, time_limit_option("10min")] = 600.0,
) -> Document:
    """Write what a stranger needs to find a fault: versions, command and error, without values.

    The command is run once more. Of its words, and of what it prints on stderr, paths, quotations,
    long numbers and all words that trnsim's own source does not have are left out, with the
    source lines of programs that are not trnsim's. Variables are named without their values.
    Nothing is sent.

    Example: trnsim report-bug --output bug.md -- run kernel.py --on trn2
    """
    words = command or []
    if words and error is not None:
        raise BadInput(
            f"--error {error} and a command; legal: one of them", fix="leave out --error FILE"
        )
    _check(words)
    if words:
        status, stderr_text = _status_and_stderr(words, time_limit)
    else:
        status, stderr_text = None, _kept_error(error)
    return report_document(_values(words, status, stderr_text))


def _check(words: list[str]) -> None:
    """Refuse a command that trnsim has not, or that never ends by itself.

    Raises:
        BadInput: the first of `words` names no command that ends.
    """
    legal = [name for name in COMMANDS if name not in (_NAME, *_ENDLESS)]
    if words and words[0] not in legal:
        reason = "it waits for a client" if words[0] in _ENDLESS else "it is no command that fails"
        raise BadInput(
            f"the command begins with {words[0]!r}: {reason}; legal: {', '.join(legal)}",
            fix="for example trnsim report-bug -- run kernel.py; or --error FILE",
        )


def _kept_error(file: Path | None) -> str:
    """The text of a kept error; "" without a file.

    Raises:
        BadInput: the file cannot be read, or has no text.
    """
    if file is None:
        return ""
    text = files.read_text(file, "keep what the failing command prints: 2> FILE")
    if not text.strip():
        raise BadInput(f"--error {file} is empty", fix="keep what the command prints: 2> FILE")
    return text


def _status_and_stderr(words: list[str], time_limit_s: float) -> tuple[int | None, str]:
    """The exit status of a command, None at its time limit, and the end of its stderr."""
    with tempfile.TemporaryFile() as stderr_file:
        process = subprocess.Popen(  # noqa: S603  this Python and the user's own command
            [sys.executable, "-c", _START, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr_file,
            start_new_session=os.name == "posix",
            env={**os.environ, FULL_TRACEBACK: "1", "NO_COLOR": "1"},
        )
        status = None
        try:
            with suppress(subprocess.TimeoutExpired):
                status = process.wait(time_limit_s)
        finally:
            _end(process)
        return status, _tail(stderr_file)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command and the processes that it started."""
    if os.name == "posix":
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


def _tail(stderr_file: IO[bytes]) -> str:
    """The last whole lines; if the last line is too long, its beginning, up to a whole word."""
    size = stderr_file.seek(0, os.SEEK_END)
    stderr_file.seek(max(size - _TAIL_BYTES, 0))
    text = stderr_file.read().decode("utf-8", "replace")
    if size <= _TAIL_BYTES:
        return text
    # Without the start of a line, the rest of a long number or quotation would not be known as one.
    lines = text.partition("\n")[2]
    return lines if lines.strip() else _start_of_last_line(stderr_file)


def _start_of_last_line(stderr_file: IO[bytes]) -> str:
    stderr_file.seek(0)
    last_line = b""
    for line in stderr_file:
        last_line = line if line.strip() else last_line
    text = last_line[:_TAIL_BYTES].decode("utf-8", "replace")
    return f"{text.rpartition(' ')[0]} ..."


def source_digest() -> str:
    """A digest of the installed source, by which a changed copy is known."""
    root, digest = Path(trnsim.__file__).parent, sha256()
    for file in sorted(root.rglob("*.py")):
        if "examples" not in file.relative_to(root).parts:
            digest.update(file.relative_to(root).as_posix().encode())
            digest.update(file.read_bytes().replace(b"\r\n", b"\n"))
    return digest.hexdigest()[:_DIGEST_DIGITS]


def _version(package: str) -> str | None:
    """The version of an installed package; None without it."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def issues_url() -> str | None:
    """The address of the issue tracker in the package's metadata; None if it has none."""
    try:
        labels = metadata.metadata("trnsim").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        return None
    urls = dict(label.split(", ", 1) for label in labels)
    return urls.get("Issues")


def _values(words: list[str], status: int | None, stderr_text: str) -> dict[str, Any]:
    """The report as JSON."""
    redacted_words = [redacted(word) for word in words]
    lines = "\n".join(stderr_text.strip().splitlines()[-_TAIL_LINES:])
    error = redacted_error(lines)
    names = sorted(name for name in os.environ if name.startswith(("TRNSIM_", "NEURON_")))
    variables = [redacted(name) for name in names]
    left_out = sum(
        (part.left_out for part in (*redacted_words, *variables)), Counter(error.left_out)
    )
    release = re.match(r"\d+(\.\d+)*", platform.release())
    return {
        "trnsim": VERSION,
        "source_digest": source_digest(),
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": platform.system(),
        "release": release[0] if release else "",
        "machine": platform.machine(),
        "packages": [{"name": name, "version": _version(name)} for name in _PACKAGES],
        "variables": [part.text for part in variables],
        "command": [part.text for part in redacted_words] if words else None,
        "status": status,
        "is_stopped": bool(words) and status is None,
        "error": error.text or None,
        "left_out": {kind: left_out[kind] for kind in KINDS},
        "issues_url": issues_url(),
    }


def report_document(values: dict[str, Any]) -> Document:
    """The report of `_values` as a document."""
    packages = [f"{package['name']} {package['version'] or '-'}" for package in values["packages"]]
    variables = ", ".join(values["variables"])
    system = filter(None, (values[key] for key in ("system", "release", "machine")))
    rows = [
        ("trnsim", f"{values['trnsim']}, source {values['source_digest']}"),
        ("python", f"{values['python']} ({values['implementation']})"),
        ("system", " ".join(system)),
        ("packages", ", ".join(packages)),
        ("variables", variables or "none of trnsim's or Neuron's"),
    ]
    if values["command"]:
        rows.append(("command", shlex.join(["trnsim", *values["command"]]).replace("'", "")))
        rows.append(("ended", _ending(values)))
    counts = [f"{count} {kind.replace('_', ' ')}" for kind, count in values["left_out"].items()]
    rows.append(("left out", enumerated(counts, "and")))
    sections = [Section("", [label_table(rows)])]
    if values["error"]:
        sections.append(Section("Error", [MonospaceLines(values["error"])]))
    url = values["issues_url"]
    sections.append(Section("", [Note(_PRIVACY_NOTE), *([Note(f"issues: {url}")] if url else [])]))
    return Document("Report of a fault", values, sections, schema="report-bug/1")


def _ending(values: dict[str, Any]) -> str:
    """The end of the command, in words."""
    if values["is_stopped"]:
        return "at the time limit"
    stderr_note = "" if values["error"] else ", with nothing on stderr"
    return f"with status {values['status']}{stderr_note}"
