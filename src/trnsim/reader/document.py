"""A file that a user writes, YAML, JSON, TOML or CSV, as plain values whose lines are known.

Content is text, numbers, True and False, None, lists and dicts. The values of YAML and CSV are
text, and the declaration of a field decides whether its text is a number, a day, yes or no, since
YAML itself reads ``no`` as false, ``1e9`` as text and ``8_000`` as 8000.

Lines are looked up for errors alone, so a valid file is parsed once and at full speed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from trnsim import files
from trnsim.errors import BadInput, SourceLine
from trnsim.reader.csv_text import parse_csv
from trnsim.reader.json_text import parse_json, parse_json_lines, parse_json_with_infinity
from trnsim.reader.parsed import Keys, Malformed, ParsedText
from trnsim.reader.toml_text import parse_toml
from trnsim.reader.yaml_text import parse_yaml, parse_yaml_documents

_SCRIPTS: Final = (".sh", ".bash", ".sbatch")
_SPREADSHEETS: Final = (".xlsx", ".xls", ".ods", ".numbers")
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
_SUFFIXES: Final = {".yaml": "yaml", ".yml": "yaml", ".toml": "toml", ".json": "json"}
_PARSERS: Final[dict[str, Callable[[str], ParsedText]]] = {
    "csv": parse_csv,
    "json": parse_json,
    "json lines": parse_json_lines,
    "json with infinity": parse_json_with_infinity,
    "toml": parse_toml,
    "yaml": parse_yaml,
}
_STATEMENT: Final = re.compile(r"^[ \t]*\{(\{[^{}\n]*\}|%[^{}\n]*%)\}[ \t]*$", re.MULTILINE)
_BRACES: Final = re.compile(r"\{\{([^{}\n]*)\}\}")
"""Templates: a line that is a statement (the first pattern), and a value.

Sources: Go's text/template, Actions; Jinja, Synopsis."""
_MOST_CHARACTERS: Final = 60
"""Characters of a value in an error."""
_MISSING: Final = object()


def fault(path: Path | str, why: str, fix: str = "", line: int = 1) -> BadInput:
    """The error of a line of a file, to be raised; an error of the whole file has line 1."""
    at = SourceLine(str(path), line)
    return BadInput(f"{at}: {why}", fix=fix, line=at)


@dataclass(frozen=True)
class FileContent:
    """The content of a file.

    Attributes:
        file: its name in errors.
        parsed: its values and their lines.
        fix: the fix of errors that have no fix of their own.
    """

    file: str
    parsed: ParsedText
    fix: str = ""

    @classmethod
    def of(cls, content: Any, file: str, fix: str = "") -> FileContent:
        """Content without lines: errors name `file` alone."""
        return cls(file, ParsedText(content, lambda _: 0), fix)

    @property
    def root(self) -> SourcePlace:
        """The place of the whole content."""
        return SourcePlace(self, (), self.parsed.content)

    def refused(self, line: int, why: str, fix: str = "") -> BadInput:
        """The error of a line, to be raised; line 0 for a file without lines."""
        if not line:
            return BadInput(f"{self.file}: {why}", fix=fix or self.fix)
        return fault(self.file, why, fix or self.fix, line)


class SourcePlace(NamedTuple):
    """A value of a document.

    Attributes:
        keys: the names and indexes that lead to it.
        value: the value.
    """

    document: FileContent
    keys: Keys
    value: Any

    def inner(self, key: str | int) -> SourcePlace:
        """The place under a name or an index; a missing name has the line of its mapping."""
        is_present = isinstance(key, int) or (isinstance(self.value, dict) and key in self.value)
        return SourcePlace(
            self.document, (*self.keys, key), self.value[key] if is_present else _MISSING
        )

    @property
    def line(self) -> SourceLine:
        """File and line of the value; line 0 for a document without lines."""
        return SourceLine(self.document.file, self.document.parsed.line_of(self.keys))

    @property
    def name(self) -> str:
        """The name of the field: ``services.chat.hours[3]``; in a table the name within a row."""
        keys = self.keys[1:] if self.keys and isinstance(self.keys[0], int) else self.keys
        text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
        return text.lstrip(".") or ("the row" if self.keys else "the file")

    def refused(self, why: str, fix: str = "") -> BadInput:
        """The error of this value, to be raised.

        `why` says what is wrong with the value; or what is legal, if it begins with ``legal:``.
        """
        is_legal = why.startswith("legal: ")
        if isinstance(self.value, dict) and not is_legal:
            return self.field_error(f": {why}", fix)
        return self.field_error(
            f" is {_value_text(self.value)}{'; ' if is_legal else ': '}{why}", fix
        )

    def field_error(self, problem: str, fix: str = "") -> BadInput:
        """The error of this field, to be raised; its message is the field's name and `problem`."""
        return self.document.refused(self.line.line, f"{self.name}{problem}", fix)


def load(
    path: Path | str, fix: str = "", *, is_table: bool = False, has_infinity: bool = False
) -> FileContent:
    """The file at `path`.

    ``.yaml``, ``.yml``, ``.json`` and ``.toml`` decide the format. Any other file is JSON if it
    begins with a bracket, YAML if it begins with a dash, and else a table is CSV and other files
    are YAML. A table in JSON that begins with ``{`` has an object in each line.

    Args:
        path: the file.
        fix: the fix of errors that have no fix of their own.
        is_table: True if the file holds rows.
        has_infinity: True if Infinity is a number of JSON, as Python writes it.

    Raises:
        BadInput: it cannot be read, is empty, no UTF-8 text, or not what its name says.
    """
    if Path(path).suffix.lower() in _SPREADSHEETS:
        raise BadInput(f"{path} is a spreadsheet", fix="save it as CSV, UTF-8, with commas")
    content = files.read_bytes(path, fix)
    return parse(content, path, fix, is_table=is_table, has_infinity=has_infinity)


def parse(
    content: bytes,
    path: Path | str,
    fix: str = "",
    *,
    is_table: bool = False,
    has_infinity: bool = False,
    form: str = "",
) -> FileContent:
    """The document in `content`, which errors call `path`; `form` is a key of `_PARSERS`, or "".

    Raises:
        BadInput: it is empty, no UTF-8 text, or not what its name says.
    """
    blank = FileContent.of(None, str(path), fix)
    text = _checked_text(content, path, fix)
    form = form or _form(text, Path(path).suffix.lower(), is_table=is_table)
    form = "json with infinity" if has_infinity and form == "json" else form
    try:
        return FileContent(str(path), _PARSERS[form](text), fix)
    except Malformed as error:
        raise blank.refused(error.line, error.why, error.fix) from error


def load_documents(path: Path | str, fix: str = "") -> list[FileContent]:
    """The documents of a file for other programs, typed as JSON is: specs, manifests, scripts.

    A file that begins with a brace or a bracket is JSON, one that begins with ``#!`` or is named
    ``.sh`` is a script, whose value is its text, and any other is YAML, which may hold several
    documents, with local tags as mappings (`parse_yaml_documents`). In a template that is no YAML
    before its values are filled in, ``{{ .Values.nodes }}`` is the text ``${ .Values.nodes }``, and
    a line of nothing else is blank.

    Raises:
        BadInput: it cannot be read, is empty, no UTF-8 text, or neither YAML nor JSON.
    """
    text = _checked_text(files.read_bytes(path, fix), path, fix)
    blank = FileContent.of(None, str(path), fix)
    if text.startswith("#!") or Path(path).suffix.lower() in _SCRIPTS:
        return [FileContent(str(path), ParsedText(text, lambda _: 1), fix)]
    try:
        if _form(text, "", is_table=False) == "json" and not text.lstrip().startswith("{{"):
            return [FileContent(str(path), parse_json(text), fix)]
        documents = _documents(text)
    except Malformed as error:
        raise blank.refused(error.line, error.why, error.fix) from error
    if not documents:
        raise blank.refused(1, "the file is empty")
    return [FileContent(str(path), parsed, fix) for parsed in documents]


def _documents(text: str) -> list[ParsedText]:
    """The documents of YAML, or of a template of YAML.

    Raises:
        Malformed: it is neither.
    """
    try:
        return parse_yaml_documents(text)
    except Malformed:
        if "{{" not in text:
            raise
    filled_text = _STATEMENT.sub("", text)
    return parse_yaml_documents(_BRACES.sub(r"${\1}", filled_text))


def line_in(file: str, keys: Keys) -> SourceLine | None:
    """The line of a value that was read from `file` before; None if the file cannot be read.

    It is read again, as values that were merged with others lack their lines. Infinity is legal, as
    it was then, if the file has it.
    """
    try:
        line = load(file, has_infinity=True).parsed.line_of(keys)
    except BadInput:
        return None
    return SourceLine(file, line)


def _checked_text(content: bytes, path: Path | str, fix: str) -> str:
    """The text of a file.

    Raises:
        BadInput: it is UTF-16, no UTF-8, empty, or holds a NUL character.
    """
    blank = FileContent.of(None, str(path), fix)
    if content[:2] in _UTF16:
        raise blank.refused(1, "the file is UTF-16", "save it as UTF-8")
    text = files.decoded(content, path, fix)
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise blank.refused(line, "a NUL character, which no text has", "save the file as text")
    if not text.strip():
        raise blank.refused(1, "the file is empty")
    return text


def _form(text: str, suffix: str, *, is_table: bool) -> str:
    lines = (line.strip() for line in text.splitlines())
    start = next((line for line in lines if line and line[:1] != "#"), "")[:1]
    form = _SUFFIXES.get(suffix, "json" if start in ("{", "[") else "")
    if form == "json":
        return "json lines" if is_table and start == "{" else "json"
    return form or ("csv" if is_table and start != "-" else "yaml")


def _value_text(value: Any) -> str:
    if value is _MISSING or value is None:
        return "missing"
    text = "a mapping" if isinstance(value, dict) else repr(value)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..."
