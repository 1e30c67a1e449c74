"""Shell scripts as statements and words, without running or expanding anything.

    text --tokens--> words and operators, with their places
         --statements--> simple commands and blocks, each with its lines

Quotes, continued lines, comments, here-documents, arrays ``NAME=( ... )`` and substitutions are
told apart as POSIX 2018, Shell Command Language, sections 2.2 to 2.10, and bash(1) define them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from trnsim.reader.parsed import Malformed

_OPERATORS: Final = ("&&", "||", ";;", "|&", ";", "|", "&", "(", ")")
_REDIRECTION: Final = re.compile(r"(\d*|&)(<<<|<<-|<<|>>|>&|<&|>\||<>|>|<)(&?)")
_PLAIN: Final = re.compile(r"""[^\s;|&<>()\\'"$`]+""")
_PLAIN_QUOTED: Final = re.compile(r'[^"\\$]+')
"""Texts without a special character, outside of quotes and in double quotes."""
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*(\[[^\]]*\])?\+?=$")
_OPENING: Final = {"if": "fi", "while": "done", "until": "done", "for": "done", "select": "done"}
_OPENING_SIGNS: Final = {"case": "esac", "{": "}", "(": ")"}
_CLOSING: Final = frozenset(("fi", "done", "esac", "}"))
_PARTS: Final = frozenset(("then", "do", "else", "elif"))
_BEFORE_COMMANDS: Final = frozenset((*_PARTS, "!", "time"))
_MOST_TOKENS: Final = 100_000
_MOST_ARRAYS: Final = 10
"""Maximum number of arrays in one another; bash itself has none within another."""


class Piece(NamedTuple):
    """A part of a word with one kind of quotes: "", "'" or '"'."""

    text: str
    quote: str


@dataclass
class Word:
    """A word, or an operator of one piece.

    Attributes:
        pieces: parts of the word; escaped characters are parts in single quotes.
        start: index of the first character in the script.
        end: index after the last character.
        is_operator: whether the word is an operator, such as ; or |, which separates commands.
        items: the words of an array ``NAME=( ... )``; None for other words.
    """

    pieces: list[Piece]
    start: int
    end: int = 0
    is_operator: bool = False
    items: list[Word] | None = None

    @property
    def raw(self) -> str:
        """The word's text without quotes."""
        return "".join(piece.text for piece in self.pieces)

    @property
    def is_plain(self) -> bool:
        """True if no part is quoted."""
        return all(not piece.quote for piece in self.pieces)


class Branch(NamedTuple):
    """A part of a block, whose commands may not run, or run several times.

    Attributes:
        opening: the word that opens the block, such as "if", "for", "{".
        part: the word that opens the part, such as "then"; in the block's first part, `opening`.
        line: line of the block's first word.
    """

    opening: str
    part: str
    line: int


@dataclass
class ScriptCommand:
    """A simple command.

    Attributes:
        before: the operator before the command; "" for none.
        branches: the parts of blocks around the command, the outermost first.
    """

    words: list[Word]
    before: str = ""
    branches: tuple[Branch, ...] = ()


@dataclass
class Statement:
    """A list of commands up to the end of the line or a semicolon, or a whole block.

    Attributes:
        commands: commands in order.
        is_block: whether the statement is an if, a loop, a function or a group, which may not run.
        start: index of the first character in the script.
    """

    line: int
    text: str
    commands: list[ScriptCommand] = field(default_factory=list)
    is_block: bool = False
    start: int = 0


def statements(text: str) -> list[Statement]:
    """The statements of a script.

    Raises:
        Malformed: quotes or brackets are not closed.
    """
    reader = _Statements(text)
    for word in tokens(text):
        reader.add(word)
    reader.end()
    return reader.statements


class _Statements:
    """Groups the tokens of a script into statements."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.statements: list[Statement] = []
        self._open: list[str] = []
        """Words that close the open blocks."""
        self._branches: list[Branch] = []
        """The part of each open block that the current token is in."""
        self._current: Statement | None = None
        self._command = ScriptCommand([])
        self._is_start = True
        self._is_function = False
        self._last = 0

    def add(self, word: Word) -> None:
        """Add the next token of the script."""
        if word.raw == "\n" and word.is_operator:
            if self._command.before and not self._command.words:  # an operator ends the line
                return
            if word.end > word.start + 1 and self._current is not None:  # here-documents
                self._last = word.end - 1
            self._close_command("")
            if not self._open:
                self.end()
            return
        if self._current is None:
            line = self._text.count("\n", 0, word.start) + 1
            self._current = Statement(line, "", start=word.start)
        self._last = word.end
        may_open = self._is_start or (word.raw == "{" and self._is_function)
        if word.is_operator:
            self._operate(word)
        elif word.is_plain and may_open and self._opens(word):
            return
        else:
            self._is_start = False
            self._command.words.append(word)

    def end(self) -> None:
        """End the current statement."""
        self._close_command("")
        if self._current is not None:
            self._current.text = self._text[self._current.start : self._last].rstrip()
            if self._current.text.strip():
                self.statements.append(self._current)
        self._current = None

    def _opens(self, word: Word) -> bool:
        """Process a command's first word if it opens or closes a part of a block; True if so."""
        raw = word.raw
        closing = _OPENING.get(raw) or _OPENING_SIGNS.get(raw)
        if closing or raw == "function":
            self._mark_block()
            if closing:
                self._push(word, closing)
            self._is_start = raw in ("if", "while", "until", "{")
            self._is_function = raw == "function"
            return True
        if raw in _CLOSING:
            self._pop(raw)
            self._is_start = True
            return True
        if raw in _PARTS and self._branches:
            self._branches[-1] = self._branches[-1]._replace(part=raw)
        return raw in _BEFORE_COMMANDS

    def _push(self, word: Word, closing: str) -> None:
        line = self._text.count("\n", 0, word.start) + 1
        self._open.append(closing)
        self._branches.append(Branch(word.raw, word.raw, line))

    def _pop(self, closing: str) -> None:
        if self._open and self._open[-1] == closing:
            self._open.pop()
            self._branches.pop()

    def _operate(self, word: Word) -> None:
        raw = word.raw
        if raw == "(":
            self._mark_block()
            self._push(word, ")")
            self._is_start = True
        elif raw == ")":
            self._close_command("")
            self._pop(")")
        elif raw in ("&&", "||", "|", "|&"):
            self._close_command(raw)
        else:
            self._close_command("")
            if not self._open and raw in (";", "&"):
                if raw == ";":
                    self._last = word.start
                self.end()

    def _mark_block(self) -> None:
        if self._current is not None:
            self._current.is_block = True

    def _close_command(self, operator: str) -> None:
        if self._current is not None and self._command.words:
            self._command.branches = tuple(self._branches)
            self._current.commands.append(self._command)
            self._command = ScriptCommand([], operator)
        elif operator or not self._command.words:
            self._command = ScriptCommand([], operator)
        self._is_start = True


def tokens(text: str) -> Iterator[Word]:
    """The words and operators of a script; the end of a line is the operator of a newline.

    A redirection with its target is one word (`is_redirection`).

    Raises:
        Malformed: quotes or brackets are not closed.
    """
    return _Tokens(text).all()


class _Tokens:
    """The tokens of a script from an index on."""

    def __init__(self, text: str, start: int = 0, depth: int = 0) -> None:
        self._text = text
        self._offset = start
        self._depth = depth
        """Number of arrays around the index."""
        self._documents: list[str] = []
        """Closing words of the here-documents that begin after the current line."""

    def all(self) -> Iterator[Word]:
        count = 0
        while (word := self._next_word()) is not None:
            count += 1
            if count > _MOST_TOKENS:
                raise Malformed(self._line(self._offset), f"more than {_MOST_TOKENS:,} words")
            yield word

    def _next_word(self) -> Word | None:
        text = self._text
        while self._offset < len(text):
            offset = self._offset
            if text[offset] in " \t\r":
                self._offset += 1
            elif text.startswith("\\\n", offset):
                self._offset += 2
            elif text[offset] == "#":
                self._offset = _line_end(text, offset)
            elif text[offset] == "\n":
                self._offset += 1
                self._pass_documents()
                return Word([Piece("\n", "")], offset, self._offset, is_operator=True)
            else:
                return self._operator(offset) or self._word(offset)
        return None

    def _operator(self, offset: int) -> Word | None:
        text = self._text
        if text.startswith("((", offset):
            end = self._after_bracket(offset, "((", "))")
            self._offset = end
            return Word([Piece(text[offset:end], "")], offset, end)
        match = _REDIRECTION.match(text, offset)
        if match and (match[1] != "&" or match[2] in (">", ">>")):
            return self._redirection(offset, match)
        for operator in _OPERATORS:
            if text.startswith(operator, offset):
                self._offset = offset + len(operator)
                return Word([Piece(operator, "")], offset, self._offset, is_operator=True)
        return None

    def _redirection(self, offset: int, match: re.Match[str]) -> Word:
        """A redirection with its target, as one word, which is no argument of the program."""
        if self._text.startswith("(", match.end()):  # a substituted process is a word
            self._offset = self._after_bracket(match.end(), "(", ")")
            return Word([Piece(self._text[offset : self._offset], "")], offset, self._offset)
        self._offset = match.end()
        while self._offset < len(self._text) and self._text[self._offset] in " \t":
            self._offset += 1
        target = self._word(self._offset) if self._offset < len(self._text) else None
        if match[2] in ("<<", "<<-") and target is not None:
            self._documents.append(target.raw)
        return Word([Piece(_REDIRECTION_TEXT, "")], offset, self._offset)

    def _pass_documents(self) -> None:
        for end in self._documents:
            while self._offset < len(self._text):
                line_end = _line_end(self._text, self._offset)
                line = self._text[self._offset : line_end]
                self._offset = min(line_end + 1, len(self._text))
                if line.lstrip("\t") == end:
                    break
        self._documents = []

    def _word(self, offset: int) -> Word:
        word = Word([], offset)
        text, self._offset = self._text, offset
        while self._offset < len(text) and text[self._offset] not in " \t\r\n;|&<>()":
            self._piece(word)
            is_array = (
                self._offset < len(text)
                and text[self._offset] == "("
                and word.is_plain
                and _ASSIGNMENT.match(word.raw)
            )
            if is_array:
                end = self._after_bracket(self._offset, "(", ")")
                if self._depth > _MOST_ARRAYS:
                    raise Malformed(self._line(offset), f"more than {_MOST_ARRAYS} nested arrays")
                inner = _Tokens(text[: end - 1], self._offset + 1, self._depth + 1)
                word.items = [item for item in inner.all() if not item.is_operator]
                self._offset = end
        if self._offset == offset:  # an unmatched bracket
            word.pieces.append(Piece(text[offset], ""))
            self._offset += 1
        word.end = self._offset
        return word

    def _piece(self, word: Word) -> None:
        text, offset = self._text, self._offset
        character = text[offset]
        if character == "\\":
            if text.startswith("\\\n", offset):
                self._offset += 2
                return
            word.pieces.append(Piece(text[offset + 1 : offset + 2], "'"))
            self._offset += 2
        elif character == "'":
            end = text.find("'", offset + 1)
            if end < 0:
                raise Malformed(self._line(offset), "a quote ' that is not closed", "close it")
            word.pieces.append(Piece(text[offset + 1 : end], "'"))
            self._offset = end + 1
        elif character == '"':
            self._double(word)
        elif character == "$" and text.startswith(("$(", "${"), offset):
            end = self._after_bracket(
                offset + 1, text[offset + 1], ")" if text[offset + 1] == "(" else "}"
            )
            _append(word, text[offset:end], "")
            self._offset = end
        elif character == "`":
            end = text.find("`", offset + 1)
            if end < 0:
                raise Malformed(self._line(offset), "a backquote that is not closed", "close it")
            _append(word, text[offset : end + 1], "")
            self._offset = end + 1
        else:
            plain_text = _PLAIN.match(text, offset)
            self._offset = plain_text.end() if plain_text else offset + 1
            _append(word, text[offset : self._offset], "")

    def _double(self, word: Word) -> None:
        """A text in double quotes: plain parts, and escaped characters as single-quoted ones."""
        text, start = self._text, self._offset
        self._offset += 1
        word.pieces.append(Piece("", '"'))
        while self._offset < len(text) and text[self._offset] != '"':
            offset = self._offset
            if text[offset] == "\\" and text[offset + 1 : offset + 2] in (
                '"',
                "\\",
                "$",
                "`",
                "\n",
            ):
                if text[offset + 1] != "\n":
                    word.pieces.append(Piece(text[offset + 1], "'"))
                    word.pieces.append(Piece("", '"'))
                self._offset += 2
            elif text.startswith(("$(", "${"), offset):
                end = self._after_bracket(
                    offset + 1, text[offset + 1], ")" if text[offset + 1] == "(" else "}"
                )
                _append(word, text[offset:end], '"')
                self._offset = end
            else:
                plain_text = _PLAIN_QUOTED.match(text, offset)
                self._offset = plain_text.end() if plain_text else offset + 1
                _append(word, text[offset : self._offset], '"')
        if self._offset >= len(text):
            raise Malformed(self._line(start), 'a quote " that is not closed', "close it")
        self._offset += 1

    def _after_bracket(self, offset: int, opening: str, closing: str) -> int:
        """The index after the bracket that closes the bracket at `offset`.

        Raises:
            Malformed: the bracket is not closed.
        """
        text, depth, index = self._text, 0, offset
        while index < len(text):
            character = text[index]
            if text.startswith(closing, index):
                depth -= 1
                index += len(closing)
                if not depth:
                    return index
            elif text.startswith(opening, index):
                depth += 1
                index += len(opening)
            elif character == "\\":
                index += 2
            elif character == "'" and opening != "{":
                end = text.find("'", index + 1)
                index = len(text) if end < 0 else end + 1
            elif character == '"':
                index += 1
                while index < len(text) and text[index] != '"':
                    index += 2 if text[index] == "\\" else 1
                index += 1
            elif character == "#" and text[index - 1] in " \t\n" and opening == "(":
                index = _line_end(text, index)
            else:
                index += 1
        raise Malformed(self._line(offset), f"a bracket {opening} that is not closed", "close it")

    def _line(self, offset: int) -> int:
        return self._text.count("\n", 0, offset) + 1


_REDIRECTION_TEXT: Final = "\0>"
"""The text of a redirection: no word of a program has a NUL character."""


def is_redirection(word: Word) -> bool:
    """True if a word is a redirection with its target."""
    return bool(word.pieces) and word.pieces[0].text == _REDIRECTION_TEXT


def _append(word: Word, text: str, quote: str) -> None:
    if word.pieces and word.pieces[-1].quote == quote:
        word.pieces[-1] = Piece(word.pieces[-1].text + text, quote)
    else:
        word.pieces.append(Piece(text, quote))


def _line_end(text: str, offset: int) -> int:
    end = text.find("\n", offset)
    return len(text) if end < 0 else end
