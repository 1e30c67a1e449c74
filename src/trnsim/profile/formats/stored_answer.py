"""Answers of commands on disk: JSON that names its schema, as --json, --output and --report write.

For a step, ranks, a launch, a compiled graph or a plan, `profile` reads the same JSON as other
programs; only a kernel's report has a stored format of its own.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from trnsim import reader
from trnsim.errors import BadInput
from trnsim.profile.analysis.overview import Overview, is_readable, overviews
from trnsim.profile.formats.stored import is_kernel_report
from trnsim.profile.formats.stored_lanes import stored_lanes

FIX: Final = "write one with --report DIR of trnsim run, launch or plan, or trnsim run SCRIPT"
_HEAD_BYTES: Final = 256
_SCHEMA: Final = re.compile(rb'\A(?:\xef\xbb\xbf)?\s*(?:\[\s*)?\{\s*"schema":\s*"([\w-]+/\d+)"')
_PAGES: Final = ("page.html", "step.html", "world.html")


@dataclass(frozen=True)
class StoredAnswer:
    """A stored answer of a command.

    Attributes:
        kind: the command's name in its schema, such as "plan-train".
        overviews: the overview of each answer in the file.
    """

    path: Path
    kind: str
    overviews: tuple[Overview, ...]

    @property
    def page(self) -> Path | None:
        """The HTML page that the command wrote beside the file; None if there is none."""
        same_name = self.path.with_suffix("").with_suffix(".html")
        pages = [same_name, *(self.path.parent / name for name in _PAGES)]
        return next((page for page in pages if page.is_file()), None)


def answer_file(path: Path) -> Path | None:
    """The file of the answer at `path`, or of the only one in that folder; None if it has none.

    A folder with reports of kernels also gives None: an answer in it must be named by its file.

    Raises:
        BadInput: the folder has several reports.
    """
    if not path.is_dir():
        return path if _schema(path) else None
    children = sorted(path.glob("*.json"))
    answers = [child for child in children if _schema(child)]
    kernels = [child for child in children if is_kernel_report(child)]
    if kernels or not answers:
        return None
    if len(answers) == 1:
        return answers[0]
    names = ", ".join(child.name for child in answers)
    raise BadInput(
        f"{path} is a folder with these reports: {names}",
        fix=f"name one of them, for example {answers[0]}",
    )


def load_answer(path: Path) -> StoredAnswer:
    """The answer in a file.

    Raises:
        BadInput: it lacks fields of its schema.
    """
    content: Any = reader.load(path, FIX).parsed.content
    answers = content if isinstance(content, list) else [content]
    name = _schema(path)
    try:
        with_lanes = [
            overview
            if overview.lanes
            else replace(overview, lanes=stored_lanes(path, overview.machine))
            for overview in overviews(answers)
        ]
        return StoredAnswer(path, name.partition("/")[0], tuple(with_lanes))
    except KeyError as error:
        raise BadInput(f"{path}: it is no whole answer of {name}: no {error}", fix=FIX) from None
    except (ValueError, OverflowError) as error:
        raise BadInput(f"{path}: it is no whole answer of {name}: {error}", fix=FIX) from None
    except (TypeError, AttributeError) as error:
        raise BadInput(
            f"{path}: it is no whole answer of {name}: a field has another type ({error})", fix=FIX
        ) from None


def _schema(path: Path) -> str:
    """The schema at the start of a file, if answers of that schema can be read; else ""."""
    with suppress(OSError), path.open("rb") as stream:
        match = _SCHEMA.match(stream.read(_HEAD_BYTES))
        if match and is_readable(match[1].decode()):
            return match[1].decode()
    return ""
