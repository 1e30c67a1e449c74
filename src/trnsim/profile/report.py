"""Reports on disk: whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trnsim.errors import BadInput
from trnsim.profile.page import html

if TYPE_CHECKING:
    from trnsim.timing import Timeline

_PAGE: Final = "report.html"


def write(path: Path | str, text: str) -> Path:
    """`path` with `text` in UTF-8: a reader sees the old file or the new one, never a part.

    Missing folders are made. The text goes to a temporary file beside `path`, which replaces it.

    Raises:
        BadInput: the path cannot be written.
    """
    path = Path(path)
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            draft.write_text(text, encoding="utf-8")
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise BadInput(
            f"cannot write {path}: {error.strerror or error}",
            fix="name a file in a folder that exists, or can be made, and that you may write to",
        ) from error
    return path


def write_report(timeline: Timeline, folder_or_file: Path | str, title: str) -> Path:
    """The HTML page of `timeline` as `FILE.html`, or as `report.html` in the folder; its path.

    Raises:
        BadInput: the path cannot be written.
    """
    path = Path(folder_or_file)
    if path.suffix.lower() != ".html" or path.is_dir():
        path /= _PAGE
    return write(path, html(timeline, title))
