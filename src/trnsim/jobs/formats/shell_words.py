r"""Words of a shell's script as the words of a job, and back.

A variable that the script itself sets to a constant is substituted, as the shell would; any other
expansion (``$SLURM_NODEID``, ``$(hostname)``) stays as written. A dollar sign that the shell does
not expand, but a job's word would (before a name or a bracket), becomes ``\$``, except in a program
for a second shell (``bash -c``), which expands it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

from trnsim.jobs.formats.shell import Word

Values = Mapping[str, "str | list[str] | None"]
"""Values of variables: a text, the words of an array, or None without a constant value."""

_SUBSTITUTION: Final = re.compile(
    r"\$(?:(?P<name>[A-Za-z_]\w*)|(?P<special>[0-9@*#?$!-])|\{(?P<inner>[A-Za-z_]\w*)"
    r"(?P<all>\[[@*]\])?(?P<modifier>[^}]*)\}|(?P<raw>[({]))|`"
)
_DEFAULT: Final = re.compile(r":?[-=]")
_MARK: Final = "\0"
"""Mark before a character that the shell does not expand; no text of a file contains it."""
_EXPANDING: Final = "A-Za-z_({"
_SAFE: Final = re.compile(r"[A-Za-z0-9_./:=,@%+-]+")
_SHELLS: Final = ("bash", "sh", "dash", "zsh", "ksh")
_PROGRAM_OPTION: Final = re.compile(r"-[a-z]*c")


def is_constant(text: str) -> bool:
    """True if a text has nothing for a shell to expand."""
    return not re.search(rf"(?<!\\)\$[{_EXPANDING}]|(?<!\\)`", text)


def expand(words: Sequence[Word], values: Values) -> list[str]:
    """The words of a command, with constants in place of their variables."""
    texts: list[str] = []
    for word in words:
        for text in _fields(word, values):
            texts.append(_unmark(text, is_program=_is_program(texts)))
    return texts


def expand_text(word: Word, values: Values, skip: int = 0) -> str:
    """The text of a word that the shell does not divide, such as an assigned value.

    Args:
        word: the word.
        values: values of variables.
        skip: number of first characters that are left out.
    """
    marked_text = "".join(
        _mark_expansions(piece.text)
        if piece.quote == "'"
        else _substitute(piece.text[skip:] if index == 0 else piece.text, values)
        for index, piece in enumerate(word.pieces)
    )
    return _unmark(marked_text)


def _fields(word: Word, values: Values) -> list[str]:
    """The words into which the shell divides a word after its substitutions."""
    array = _whole_array(word, values)
    if array is not None:
        return array
    fields = [""]
    is_quoted = any(piece.quote for piece in word.pieces)
    for index, piece in enumerate(word.pieces):
        if piece.quote == "'":
            fields[-1] += _mark_expansions(piece.text)
        elif piece.quote:
            fields[-1] += _substitute(piece.text, values)
        else:
            text = piece.text
            if index == 0 and re.match(r"~(/|$)", text):
                text = f"$HOME{text[1:]}"
            first_part, *other_parts = _divide(text, values)
            fields[-1] += first_part
            fields += other_parts
    return [field for field in fields if field or is_quoted]


def _whole_array(word: Word, values: Values) -> list[str] | None:
    """The words of an array that is the whole word; None for another word."""
    match = re.fullmatch(r"\$\{(\w+)\[@\]\}", word.raw)
    items = values.get(match[1]) if match else None
    return [_mark_escapes(item) for item in items] if isinstance(items, list) else None


def _divide(text: str, values: Values) -> list[str]:
    """An unquoted text after its substitutions, divided at spaces of the substituted values."""
    if not _SUBSTITUTION.search(text):
        return [text]
    parts, end = [""], 0
    for match in _SUBSTITUTION.finditer(text):
        if match.start() < end:
            continue
        parts[-1] += text[end : match.start()]
        value, end = _value(text, match, values)
        words = value.split() if _is_known(match, values) else [value]
        if words:
            parts[-1] += words[0]
            parts += words[1:]
    parts[-1] += text[end:]
    return parts


def _substitute(text: str, values: Values) -> str:
    """A text after its substitutions."""
    result, end = "", 0
    for match in _SUBSTITUTION.finditer(text):
        if match.start() < end:
            continue
        result += text[end : match.start()]
        value, end = _value(text, match, values)
        result += value
    return result + text[end:]


def _is_known(match: re.Match[str], values: Values) -> bool:
    return values.get(match["name"] or match["inner"] or "") is not None


def _value(text: str, match: re.Match[str], values: Values) -> tuple[str, int]:
    """The value of a substitution, or its text, and the index after it."""
    name = match["name"] or match["inner"]
    if name:
        value = values.get(name)
        modifier = match["modifier"] or ""
        if isinstance(value, list):
            array_text = " ".join(value) if match["all"] else (value[0] if value else "")
            return (match[0] if modifier else _mark_escapes(array_text)), match.end()
        if value is not None and (not modifier or (_DEFAULT.match(modifier) and value)):
            return _mark_escapes(value), match.end()
        return match[0], match.end()
    if match["special"]:
        return f"${{{match['special']}}}", match.end()
    if match[0] == "`":
        end = text.find("`", match.end())
        end = len(text) if end < 0 else end + 1
        return text[match.start() : end], end
    return _bracket_text(text, match.start())


def _bracket_text(text: str, start: int) -> tuple[str, int]:
    """The text of ``$( ... )`` or ``${ ... }``, and the index after it."""
    depth = 0
    for index in range(start + 1, len(text)):
        depth += (text[index] in "({") - (text[index] in ")}")
        if not depth:
            return text[start : index + 1], index + 1
    return text[start:], len(text)


def _mark_expansions(text: str) -> str:
    """A text with marks before all ``$`` and backquotes, so that none is expanded."""
    return re.sub(r"([$`])", rf"{_MARK}\1", text)


def _mark_escapes(text: str) -> str:
    """A value with marks in place of the backslashes before its ``$`` and backquotes."""
    return re.sub(r"\\([$`])", rf"{_MARK}\1", text)


def _unmark(text: str, *, is_program: bool = False) -> str:
    """A text without marks."""
    if is_program:
        return text.replace(_MARK, "")
    text = re.sub(rf"{_MARK}(?=`|\$[{_EXPANDING}])", r"\\", text)
    return text.replace(_MARK, "")


def _is_program(words: Sequence[str]) -> bool:
    """True if the word after `words` is a program for a second shell."""
    return (
        len(words) > 1
        and _PROGRAM_OPTION.fullmatch(words[-1]) is not None
        and any(PurePosixPath(word).name in _SHELLS for word in words[-3:-1])
    )


def quote(text: str) -> str:
    """A job's word in double quotes, for a script; its expansions stay, unless it escapes them."""
    if _SAFE.fullmatch(text):
        return text
    result, index = "", 0
    while index < len(text):
        character, next_character = text[index], text[index + 1 : index + 2]
        if character == "\\" and next_character in ("$", "`") and next_character:
            is_expanding = next_character == "`" or re.match(rf"[{_EXPANDING}]", text[index + 2 :])
            result += f"\\{next_character}" if is_expanding else f"\\\\\\{next_character}"
            index += 1
        elif character in ('"', "\\"):
            result += f"\\{character}"
        elif character == "$" and not re.match(rf"[{_EXPANDING}]", next_character):
            result += "\\$"
        elif character in "$`":
            inner, end = _expansion(text, index)
            result += inner
            index = end - 1
        else:
            result += character
        index += 1
    return f'"{result}"'


def _expansion(text: str, index: int) -> tuple[str, int]:
    """An expansion in a word of a job, as a script has it, and the index after it."""
    if text[index] == "`":
        end = text.find("`", index + 1)
        if end < 0:
            return "\\`", index + 1
        return text[index : end + 1], end + 1
    if text[index + 1] in "({":
        inner, end = _bracket_text(text, index)
        is_closed = inner.endswith(")" if text[index + 1] == "(" else "}")
        return (inner, end) if is_closed else ("\\$", index + 1)
    return "$", index + 1


def quote_words(words: Sequence[str]) -> list[str]:
    """Words of a command for a script; a program for a second shell stands in single quotes."""
    texts: list[str] = []
    for index, word in enumerate(words):
        if _is_program(words[:index]):
            texts.append("'" + word.replace("'", "'\\''") + "'")
        else:
            texts.append(quote(word))
    return texts
