"""An sbatch script as a mapping: options, variables, the job's command and other statements.

    {"#SBATCH": {"nodes": "2", "gres": {"neuron": "16"}},    "#SBATCH hetjob 1" for a further one
     "export": [{"name": ..., "value": ...}],
     "command": [words], or a list of them for each component,
     "srun": [[options]], or False if the command is started without it,
     "image": [image of srun's container],                    "" for none
     "tail": "| tee log",                                      text after the command, if any
     "script": {3: "source venv/bin/activate"},               other statements by number
     "ignored": {0: "#SBATCH ..."}}                           options after the first command

The command is the last one that starts a parallel program, or else the last one that starts Python
or a script. Commands outside of blocks are preferred. Statements, exported variables and the
command share one numbering, so that all can be written in their order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

from trnsim.jobs.formats import sbatch_options
from trnsim.jobs.formats.sbatch_launch import ASSIGNMENT, SbatchLaunch, launch_in
from trnsim.jobs.formats.shell import Statement, Word, statements
from trnsim.jobs.formats.shell_words import expand, expand_text, is_constant
from trnsim.reader.parsed import Keys, Malformed

HEADER: Final = "#SBATCH"
HEAD: Final = ("MASTER_ADDR", '$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)')
"""Name and value of the exported variable with the head's address; no variable of the job."""
_COMMAND: Final = re.compile(r"\$\(.*\)|`.*`", re.DOTALL)
_DECLARATIONS: Final = ("export", "declare", "typeset", "readonly", "local")
_OTHER_ASSIGNMENT: Final = re.compile(
    r"\b(?:for|select|read(?:\s+-\w+)*|mapfile|readarray)(?:\s+-\w+)*\s+([A-Za-z_]\w*)"
)


def component_key(index: int) -> str:
    """The key of a component's options: the first one, or a further one of a heterogeneous job."""
    return HEADER if index == 0 else f"{HEADER} hetjob {index}"


def names_head(words: Iterable[str]) -> bool:
    """True if a command's words name the head's address."""
    return any(re.search(rf"\$\{{?{HEAD[0]}\b", word) for word in words)


@dataclass
class ScriptContent:
    """A script as a mapping.

    Attributes:
        lines: lines of values, by keys.
        branch: the block in which the command stands, in words; "" for none.
        uncertain: text and line of variables that are exported with an unknown value, or under a
            condition, by name.
    """

    content: dict[str, Any]
    lines: dict[Keys, int] = field(default_factory=dict)
    branch: str = ""
    uncertain: dict[str, tuple[str, int]] = field(default_factory=dict)

    def line_of(self, keys: Keys) -> int:
        """The line of a value, or of the nearest value around it."""
        for end in range(len(keys), 0, -1):
            if keys[:end] in self.lines:
                return self.lines[keys[:end]]
        return 1


@dataclass
class _Entry:
    """A part of the script in its order: a kept statement, an export, or a launch."""

    line: int
    text: str
    name: str = ""
    launch: SbatchLaunch | None = None


def script_content(text: str) -> ScriptContent:
    """The mapping of a script.

    Raises:
        Malformed: a quote or a bracket is not closed, or a component has no options.
    """
    result = ScriptContent({})
    body_line = _read_header(text, result)
    lines = text.split("\n")
    body = "\n" * (body_line - 1) + "\n".join(lines[body_line - 1 :])
    entries = _Entries(result)
    statement_lines: set[int] = set()
    for statement in statements(body):
        entries.add(statement)
        statement_lines.update(
            range(statement.line, statement.line + statement.text.count("\n") + 1)
        )
    _write_entries(entries.entries, result)
    ignored_lines = [
        (number, line.rstrip())
        for number, line in enumerate(lines[body_line - 1 :], body_line)
        if line.startswith(HEADER) and number not in statement_lines
    ]
    if ignored_lines:
        result.content["ignored"] = {index: line for index, (_, line) in enumerate(ignored_lines)}
        result.lines |= {
            ("ignored", index): ignored_lines[index][0] for index in range(len(ignored_lines))
        }
    return result


def _read_header(text: str, result: ScriptContent) -> int:
    """Read the options before the first command; returns the line of that command.

    Source: sbatch(1), DESCRIPTION: no further options are read once the first line has been
    reached that is neither a comment nor blank.
    """
    component, body_line = 0, 1
    result.content[HEADER] = {}
    for body_line, line in enumerate(text.split("\n"), 1):
        if line.strip() and not line.startswith("#"):
            return body_line
        match = re.match(rf"{HEADER}\s+(.*)", line)
        if not match:
            continue
        try:
            words = sbatch_options.words_in(match[1])
        except ValueError as error:
            why = f"a quote in {match[1].strip()!r} is not closed"
            raise Malformed(body_line, why, "close it") from error
        if words[:1] in (["hetjob"], ["packjob"]):
            component += 1
            result.content[component_key(component)] = {}
            result.lines[(component_key(component),)] = body_line
        _add_options(sbatch_options.options_in(words), component_key(component), body_line, result)
    if body_line == 1:
        return 1
    return body_line + 1


def _add_options(
    options: dict[str, str | bool], key: str, line: int, result: ScriptContent
) -> None:
    component = result.content[key]
    if not result.content[HEADER] and options:
        result.lines.setdefault((HEADER,), line)
    for name, value in options.items():
        if name == "export" and isinstance(value, str):
            _add_exports(value, key, line, result)
        elif name == "gres" and isinstance(value, str):
            component[name] = _generic_resources(value, line) or value
        else:
            component[name] = value
        result.lines[(key, name)] = line


def _add_exports(text: str, key: str, line: int, result: ScriptContent) -> None:
    """Variables of ``--export=NAME=VALUE,...``; names without a value stay an option."""
    for pair in text.split(","):
        name, equals, value = pair.partition("=")
        if equals:
            exports = result.content.setdefault("export", [])
            result.lines["export", len(exports)] = line
            exports.append({"name": name, "value": value})
    names = ",".join(part for part in text.split(",") if "=" not in part)
    if names not in ("", "ALL"):
        result.content[key]["export"] = names


def _generic_resources(text: str, line: int) -> dict[str, str]:
    """Counts by name of ``name[[:type]:count],...``; a type is stored under "NAME type".

    Raises:
        Malformed: a resource is stated with and without a type.
    """
    entries: dict[str, list[str]] = {}
    for part in text.split(","):
        name, _, entry = part.strip().partition(":")
        if name:
            entries.setdefault(name, []).append(entry)
    resources: dict[str, str] = {}
    for name, texts in entries.items():
        try:
            resources[name], type_ = sbatch_options.resource_count(texts)
        except ValueError as error:
            fix = f"state the type of each, as {name}:TYPE:COUNT, or of none"
            raise Malformed(line, f"--gres={text}: {name}: {error}", fix) from error
        if type_:
            resources[f"{name} type"] = type_
    return resources


class _Entries:
    """The statements of a script, each read with the values of variables before it."""

    def __init__(self, result: ScriptContent) -> None:
        self.entries: list[_Entry] = []
        self._result = result
        self._values: dict[str, str | list[str] | None] = {}
        self._texts: dict[str, list[str]] = {}
        """All texts to which each variable is set: they show whether ``$ARGS`` is an option."""

    def add(self, statement: Statement) -> None:
        """Add a statement of the script."""
        if statement.is_block:
            self._forget(statement)
            self._start(statement)
            return
        first_command = statement.commands[0] if statement.commands else None
        if (
            len(statement.commands) == 1
            and first_command
            and self._is_assignment(first_command.words)
        ):
            self._set(statement, first_command.words)
            return
        if not self._start(statement):
            self._forget(statement)

    def _start(self, statement: Statement) -> bool:
        """Add a statement that may start the job's command; returns True if it does."""
        launch = launch_in(statement, self._values, self._texts)
        self.entries.append(_Entry(statement.line, statement.text, launch=launch))
        return launch is not None

    def _keep(self, statement: Statement) -> None:
        self.entries.append(_Entry(statement.line, statement.text))

    @staticmethod
    def _is_assignment(words: list[Word]) -> bool:
        """True if a command does nothing but set variables."""
        if words and words[0].is_plain and words[0].raw in _DECLARATIONS:
            return True
        return bool(words) and all(ASSIGNMENT.match(word.raw) for word in words)

    def _set(self, statement: Statement, words: list[Word]) -> None:
        is_export = words[0].raw == "export"
        exports: list[tuple[str, str]] = []
        is_all_known = is_export
        names = [word for word in words if word.raw not in _DECLARATIONS]
        for word in names:
            match = ASSIGNMENT.match(word.raw)
            if match is None:
                value = self._values.get(word.raw)
                if isinstance(value, str):
                    exports.append((word.raw, value))
                elif not word.raw.startswith("-"):
                    is_all_known = False
                    self._add_uncertain(word.raw, word.raw, statement.line, is_export=is_export)
                continue
            value = self._assigned_value(word, match)
            if isinstance(value, str):
                exports.append((match[1], value))
            else:
                is_all_known = False
                self._add_uncertain(match[1], word.raw, statement.line, is_export=is_export)
            is_known = isinstance(value, list) or (value is not None and is_constant(value))
            self._values[match[1]] = value if is_known else None
        if not is_all_known or not exports:
            self._keep(statement)
            return
        for name, value in exports:
            self._result.uncertain.pop(name, None)
            self.entries.append(_Entry(statement.line, value, name=name))

    def _assigned_value(self, word: Word, match: re.Match[str]) -> str | list[str] | None:
        """The variable's value after a word's assignment; None if it is unknown."""
        old_value = self._values.get(match[1])
        if word.items is not None:
            items = expand(word.items, self._values)
            self._texts.setdefault(match[1], []).extend(items[:1])
            if any(_COMMAND.fullmatch(item) for item in items):
                return None
            if not match[2]:
                return items
            return [*old_value, *items] if isinstance(old_value, list) else None
        text = expand_text(word, self._values, len(match[0]))
        self._texts.setdefault(match[1], []).append(text)
        if not match[2]:
            return text
        return old_value + text if isinstance(old_value, str) else None

    def _add_uncertain(self, name: str, text: str, line: int, *, is_export: bool) -> None:
        if is_export:
            self._result.uncertain.setdefault(name, (text, line))

    def _forget(self, statement: Statement) -> None:
        """Set the variables that a statement may change to unknown."""
        names = [str(match[1]) for match in _OTHER_ASSIGNMENT.finditer(statement.text)]
        self._values |= dict.fromkeys(names)
        for command in statement.commands:
            words = command.words
            is_export = bool(words) and words[0].raw == "export"
            if words and words[0].raw == "unset":
                self._values |= dict.fromkeys(word.raw for word in words[1:])
            if not self._is_assignment(words):
                continue
            for word in words:
                if match := ASSIGNMENT.match(word.raw):
                    self._assigned_value(word, match)
                    is_variable = is_export or self._is_exported(match[1])
                    self._add_uncertain(match[1], word.raw, statement.line, is_export=is_variable)
                    self._values[match[1]] = None

    def _is_exported(self, name: str) -> bool:
        return any(entry.name == name for entry in self.entries)


class _MappingWriter:
    """Writes exports, statements and the command into a script's mapping, and numbers them."""

    def __init__(self, result: ScriptContent) -> None:
        self._result = result
        self.exports: list[dict[str, str]] = result.content.setdefault("export", [])
        self.script: dict[int, str] = {}
        self.slot = len(self.exports)

    def export(self, name: str, value: str, line: int) -> None:
        """Put an exported variable into the mapping."""
        self._result.lines["export", len(self.exports)] = line
        self.exports.append({"name": name, "value": value})
        self.slot += 1

    def keep(self, text: str, line: int) -> None:
        """Put a statement into the mapping unchanged."""
        self.script[self.slot] = text
        self._result.lines["script", self.slot] = line
        self.slot += 1

    def command(self, launch: SbatchLaunch, line: int) -> None:
        """Put the command into the mapping, after the statements and variables before it."""
        if launch.before.strip() and not launch.branch:
            self.keep(launch.before, line)
        for name, value in launch.variables:
            self.export(name, value, line)
        if launch.branch:
            self.keep(launch.before, line)
        _write_command(launch, self._result)
        self.slot += 1

    def end(self) -> None:
        """Finish the mapping: add the statements, and drop an empty list of exports."""
        if not self.exports:
            del self._result.content["export"]
        if self.script:
            self._result.content["script"] = self.script


def _write_entries(entries: list[_Entry], result: ScriptContent) -> None:
    """Put the parts of a script into its mapping."""
    launches = [
        (entry.launch.preference, index) for index, entry in enumerate(entries) if entry.launch
    ]
    job_entry = entries[max(launches)[1]] if launches else None
    has_head = (
        job_entry is not None
        and job_entry.launch is not None
        and names_head(job_entry.launch.words)
    )
    writer = _MappingWriter(result)
    for entry in entries:
        if entry is job_entry and entry.launch is not None:
            writer.command(entry.launch, entry.line)
        elif not entry.name:
            writer.keep(entry.text, entry.line)
        elif not has_head or (entry.name, entry.text) != HEAD:
            writer.export(entry.name, entry.text, entry.line)
    writer.end()


def _write_command(launch: SbatchLaunch, result: ScriptContent) -> None:
    words, is_option = launch.words, launch.is_option
    content = result.content
    result.branch = launch.branch
    for key in ("command", "srun", "image", "tail"):
        result.lines[(key,)] = launch.line
    if launch.tail:
        content["tail"] = launch.tail
    if PurePosixPath(words[0]).name != "srun":
        content["srun"] = False
        content["command"] = [words]
        return
    content["command"], content["srun"], content["image"] = [], [], []
    start = 0
    while start < len(words):
        has_components = component_key(1) in content and ":" in words[start:]
        end = words.index(":", start) if has_components else len(words)
        step, step_options = words[start:end], is_option[start:end]
        if start:
            step, step_options = ["srun", *step], [False, *step_options]
        program = sbatch_options.program_start(step, step_options)
        options, image = _without_image(step[1:program])
        content["srun"].append(options)
        content["image"].append(image)
        content["command"].append(step[program:])
        start = end + 1


def _without_image(options: list[str]) -> tuple[list[str], str]:
    """Options of srun without pyxis' ``--container-image``, and its value."""
    other_options: list[str] = []
    image, index = "", 0
    while index < len(options):
        name, equals, value = options[index].partition("=")
        if name == "--container-image" and equals:
            image = value
        elif name == "--container-image" and index + 1 < len(options):
            index += 1
            image = options[index]
        else:
            other_options.append(options[index])
        index += 1
    return other_options, image
