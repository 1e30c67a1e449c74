"""Redacted text to show others: words of trnsim's own source stay, and all else is left out.

    vocabulary()            the words of the source
    redacted(text)          `text` with a mark in place of what may be private
    redacted_error(text)    an error with its traceback, with the same marks

A list of what is secret would never be whole; the list of what is public is the published source.
Whole numbers of at most six digits stay, since shapes and limits are what an error is about.
"""

from __future__ import annotations

import builtins
import errno
import os
import re
import sys
import sysconfig
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

KINDS: Final = ("paths", "names", "quotations", "numbers", "addresses", "source_lines")
"""Kinds of text that a report leaves out and counts."""
_ROOT: Final = Path(__file__).parent
_VOCABULARY_FILES: Final = (".py", ".json", ".yaml")
_LIBRARIES: Final = ("numpy", "ml_dtypes", "greenlet", "yaml", "typer", "torch", "jax", "jaxlib")
"""Packages whose frames are public: those that trnsim requires or extends."""
_SITES: Final = ("site-packages", "dist-packages")
_PACKAGES: Final = ("trnsim", "nki", *_LIBRARIES)
_DIGITS_MAX: Final = 6
_SERIES: Final = r"(?:[-+]?\d[\w.+-]*[,;\s]+){7,}[-+]?\d[\w.+-]*"
"""Eight numbers and more: an array that was printed."""
_NUMBER: Final = r"\d[\d,_]*(?:\.\d+)?(?:[eE][+-]?\d+)?(?:-\d+)*(?![\w.]|-\d)"
"""A number, with those joined to it by dashes, so that the groups of a card number are one."""
_ADDRESS: Final = r"[\w.+-]+@[\w.-]+"
_SUFFIXES: Final = (
    r"py|pyi|ipynb|json|jsonl|ya?ml|toml|csv|tsv|txt|log|md|html|np[yz]|pt2?|pth|bin|safetensors|"
    r"parquet|sbatch|sh|mlir|neff|so|whl|h5|pkl"
)
_PATH: Final = rf"(?:[A-Za-z]:)?[\w.~@+$%-]*[/\\][^\s'\"`,;:()<>|]*|[\w.+-]+\.(?:{_SUFFIXES})\b"
_WORD: Final = r"\w+(?:[.-]\w+)*"
_DIVIDERS: Final = re.compile(r"[\s'\"`,;:()<>|]+")
_COMPOUND: Final = re.compile(_WORD)
_NAME: Final = re.compile(r"[^\W\d]\w*")
_QUOTED: Final = r"'[^'\n]*'|\"[^\"\n]*\"|`[^`\n]*`"
_TOKEN: Final = re.compile(
    rf"(?P<quotations>{_QUOTED})|(?P<addresses>{_ADDRESS})|(?P<paths>{_PATH})"
    rf"|(?P<series>{_SERIES})|(?P<numbers>{_NUMBER})|(?P<names>{_WORD})"
)
_MARKS: Final = {
    "paths": "<path>",
    "names": "<name>",
    "numbers": "<number>",
    "addresses": "<address>",
    "quotations": "'...'",
}
_REPEATED: Final = re.compile(r"(<name>)(?:[ _.-]*<name>)+")
_FRAME: Final = re.compile(r'^((?: *\|)?\s*)File "([^"\n]*)", line (\d+)(?:, in (.*))?$')
"""A frame of a traceback; in a group of exceptions it is indented by a bar."""


@dataclass
class Redaction:
    """A text without what may be private to its author.

    Attributes:
        left_out: how many of each of `KINDS` were left out.
    """

    text: str = ""
    left_out: Counter[str] = field(default_factory=Counter[str])


@cache
def vocabulary() -> frozenset[str]:
    """Words, names with dots or dashes, and paths, as the installed source of trnsim has them.

    Names of Python's own errors and the system's texts of them are words too.
    """
    pieces = {"Errno", *dir(builtins)}
    for number in errno.errorcode:
        pieces.update(os.strerror(number).split())
    for file in sorted(_ROOT.rglob("*")):
        if file.suffix in _VOCABULARY_FILES:
            pieces.update(_DIVIDERS.split(file.read_text(encoding="utf-8")))
    words = {piece for piece in pieces if "/" in piece or "." in piece}
    for piece in pieces:
        words.update(_COMPOUND.findall(piece), _NAME.findall(piece))
    return frozenset(words)


def redacted(text: str) -> Redaction:
    """The text with marks in place of long numbers, and of words and paths outside `vocabulary`.

    A quotation stays if its content is in the vocabulary.
    """
    answer = Redaction()

    def mark(match: re.Match[str]) -> str:
        kind, token = str(match.lastgroup), match[0]
        if kind == "series":
            kind = "numbers"
        elif kind == "quotations":
            if token[1:-1] in vocabulary():
                return token
        elif kind == "numbers":
            if re.fullmatch(rf"\d{{1,{_DIGITS_MAX}}}", re.sub("[,-]", "", token)):
                return token
        elif kind != "addresses" and _is_public(token):
            return token
        answer.left_out[kind] += 1
        return _MARKS[kind]

    answer.text = _REPEATED.sub(r"\1", _TOKEN.sub(mark, text))
    return answer


def _is_public(token: str) -> bool:
    """True for a word of the vocabulary, and for a name in a public package made of such words."""
    parts = token.split(".")
    return token in vocabulary() or (parts[0] in _PACKAGES and vocabulary().issuperset(parts))


def redacted_error(text: str) -> Redaction:
    """An error and its traceback; of a user's frame only the number of its line stays.

    Frames of trnsim, of Python's own library and of the libraries that trnsim extends keep their
    files, functions and source lines.
    """
    answer = Redaction()
    lines: list[str] = []
    # Lines outside frames, since the last frame; an array may span several.
    other_lines: list[str] = []

    def flush_other_lines() -> None:
        if other_lines:
            part = redacted("\n".join(other_lines))
            answer.left_out += part.left_out
            lines.append(part.text)
            other_lines.clear()

    is_public, source_indent = False, None
    for line in text.splitlines():
        frame = _FRAME.match(line)
        if frame:
            flush_other_lines()
            shown, is_public = _shown_frame(frame)
            answer.left_out["paths"] += not is_public
            lines.append(shown)
            source_indent = frame[1] + "  "
        elif source_indent is not None and line.startswith(source_indent):
            if is_public:
                lines.append(line)
            else:
                answer.left_out["source_lines"] += bool(line.strip(" |^~"))
        else:
            source_indent = None
            other_lines.append(line)
    flush_other_lines()
    answer.text = "\n".join(lines)
    return answer


def _shown_frame(frame: re.Match[str]) -> tuple[str, bool]:
    """A frame's line as it is shown, and whether its file is public, so that its names stay."""
    indent, file, number, function = frame.groups()
    public = _public_file(file)
    if public is None and function:
        function = "<name>"
    location = f", in {function}" if function else ""
    return f'{indent}File "{public or "<path>"}", line {number}{location}', public is not None


def _public_file(file: str) -> str | None:
    """The path of a public file below the folder of its package; None for a user's file.

    Public are files of trnsim, of `_LIBRARIES` and of Python's standard library.
    """
    path = Path(os.path.normpath(file))
    if path.is_relative_to(_ROOT):
        return path.relative_to(_ROOT.parent).as_posix()
    for parts in (path.parts[at + 1 :] for at, name in enumerate(path.parts) if name in _SITES):
        return "/".join(parts) if parts and parts[0] in _LIBRARIES else None
    standard = sysconfig.get_path("stdlib")
    if path.is_relative_to(standard):
        return f"python/{path.relative_to(standard).as_posix()}"
    frozen = re.fullmatch(r"<frozen (\w+)[\w.]*>", file)
    return file if frozen and frozen[1] in sys.stdlib_module_names else None
