"""The reference page of an instruction, derived from its class: fields, docstrings, `cost`.

Every page has the same parts in the same order: summary, call, operands, parameters, state,
engines, constraints, values, cost, open points, source. All its text comes from the class: a
sentence that reads poorly must be improved there.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, Field, fields
from enum import Enum
from typing import Any, Final

from trnsim.arch import NeuronCore, cores, where
from trnsim.errors import IllegalInstruction
from trnsim.facts import Count, Fact, Rate
from trnsim.formatting import markdown_table
from trnsim.isa.language.declaration import Operand
from trnsim.isa.language.instruction import ON_PARTITIONS, Cost, Instruction
from trnsim.isa.language.modes import Engine
from trnsim.isa.reference.example import examples, on_engine
from trnsim.memory import Tile

_ACCESS_WORDS: Final = {
    "read": "reads",
    "write": "writes",
    "update": "updates",
    "name": "names",
    "mention": "leaves to its trigger",
}
_NOTE_HEADING: Final = "Note:"
_SOURCE_HEADING: Final = "Source:"
_NS_PER_S: Final = 1e9
_LINE_CHARS: Final = 100
_LONGEST_VALUE_CHARS: Final = 88
_EMPTY_CELL: Final = "-"
_ISSUE_TIME_NOTE: Final = "Before the slash: the time in a DMA queue."
_MIN_II_NOTE: Final = "MIN_II is `minimum_interval_cycles`, what an instruction takes at least."
_START_PARTITION_RULE: Final = (
    "A tile of up to 32 partitions starts at partition 0, 32, 64 or 96, one of up to 64 at 0 or "
    "64, a longer one at 0."
)


def page(instruction_class: type[Instruction]) -> str:
    """The reference page of an instruction, in Markdown that reads in a terminal as well."""
    text = _Docstring(instruction_class.__doc__ or "")
    instances = list(examples(instruction_class))
    parts = [
        f"# {instruction_class.opcode}\n\n{text.summary}",
        f"```python\n{call(instruction_class)}\n```",
        _section("Operands", _operands(instruction_class)),
        _section("Parameters", _parameters(instruction_class)),
        _section("State", _state(instruction_class)),
        _section("Where it runs", _engines(instruction_class, instances)),
        _section("Constraints", _constraints(instruction_class)),
        _section("Values", _values(instruction_class, text)),
        _section("Cost", _cost(instruction_class, instances)),
        _section("Approximate, open or contradictory", text.note),
        _section(
            "Source", f"{instruction_class.source}. Class: `{_class_name(instruction_class)}`."
        ),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def call(instruction_class: type[Instruction]) -> str:
    """The call of the instruction in a kernel, with its defaults, wrapped."""
    module = "nisa" if instruction_class.is_in_nki_isa else "trnsim.isa"
    if instruction_class.source.startswith("nki.collectives"):
        module = "ncc"
    name = f"{module}.{instruction_class.opcode}"
    arguments = [_argument(field) for field in _call_fields(instruction_class)]
    line = ", ".join(arguments)
    if len(f"{name}({line})") <= _LINE_CHARS:
        return f"{name}({line})"
    if len(f"    {line}") <= _LINE_CHARS:
        return f"{name}(\n    {line}\n)"
    return "\n".join([f"{name}(", *(f"    {argument}," for argument in arguments), ")"])


def summary(instruction_class: type[Instruction]) -> str:
    """The first paragraph of an instruction's docstring."""
    return _Docstring(instruction_class.__doc__ or "").summary


def note(instruction_class: type[Instruction]) -> str:
    """The section Note of its docstring, on what is approximate, undocumented or contradictory.

    "" if there is none.
    """
    return _Docstring(instruction_class.__doc__ or "").note


def support(instruction_class: type[Instruction]) -> dict[Engine, list[NeuronCore]]:
    """Engine -> the cores on which it can run a typical instance of the instruction."""
    return _support(instruction_class, list(examples(instruction_class)))


class _Docstring:
    """A docstring split into its first paragraph, its body, and the sections Note and Source.

    Attributes:
        summary: the first paragraph, as Markdown like the others.
        body: the paragraphs after it, without the two sections.
        note: the section Note, or "".
        source: the section Source, or "".
    """

    def __init__(self, text: str) -> None:
        sections = re.split(
            rf"^({_NOTE_HEADING}|{_SOURCE_HEADING})", inspect.cleandoc(text), flags=re.MULTILINE
        )
        untitled, *titled = sections
        texts = dict(zip(titled[::2], map(inspect.cleandoc, titled[1::2]), strict=True))
        first_paragraph, _, body = untitled.strip().partition("\n\n")
        self.summary = _markdown_of(first_paragraph)
        self.body = _markdown_of(body)
        self.note = _markdown_of(texts.get(_NOTE_HEADING, ""))
        self.source = _markdown_of(texts.get(_SOURCE_HEADING, ""))


def _markdown_of(text: str) -> str:
    """A docstring as Markdown: code in single backticks."""
    return re.sub(r"`+([^`]+)`+", r"`\1`", text).strip()


def _section(title: str, text: str) -> str:
    return f"## {title}\n\n{text}" if text else ""


def _class_name(instruction_class: type[Instruction]) -> str:
    return f"{instruction_class.__module__}.{instruction_class.__name__}"


def _call_fields(instruction_class: type[Instruction]) -> list[Field[Any]]:
    """The fields that a kernel sets, keyword-only ones last."""
    visible = [field for field in fields(instruction_class) if not field.metadata.get("is_hidden")]
    return sorted(visible, key=lambda field: field.kw_only is True)


def _argument(field: Field[Any]) -> str:
    return field.name if field.default is MISSING else f"{field.name}={_value(field.default)}"


def _value(value: object) -> str:
    """A parameter's value as a kernel writes it; a string names an operator."""
    if isinstance(value, Enum):
        return f"{_enum_name(type(value))}.{value.name}"
    if isinstance(value, str):
        return f"nl.{value}"
    return f"{value:g}".replace("e+", "e") if isinstance(value, float) else repr(value)


def _enum_name(enumeration: type[Enum]) -> str:
    """AWS's name of an enumeration: nisa.reduce_cmd."""
    return "nisa." + re.sub(r"(?<=[a-z])(?=[A-Z])", "_", enumeration.__name__).lower()


def _operands(instruction_class: type[Instruction]) -> str:
    rows = [
        (f"`{name}`", _ACCESS_WORDS[operand.access], *_operand(operand))
        for name, operand in instruction_class.operands.items()
    ]
    header = ("operand", "access", "axes", "memory", "dtypes")
    return markdown_table(header, rows) if rows else "It has none."


def _operand(operand: Operand) -> tuple[str, str, str]:
    """Axes, memories and dtypes of an operand."""
    axes = f"[{', '.join(operand.axes)}]" if operand.axes else "any"
    if operand.is_many:
        axes = f"several, {axes}"
    if operand.is_immediate:
        axes += ", or a number"
    memories = " or ".join(memory.value for memory in operand.memories)
    return axes, memories, ", ".join(map(str, operand.dtypes)) or "any"


def _parameters(instruction_class: type[Instruction]) -> str:
    rows = [
        (
            f"`{field.name}`",
            "required" if field.default is MISSING else f"`{_value(field.default)}`",
            _legal_values(instruction_class, field),
        )
        for field in _call_fields(instruction_class)
        if field.name not in instruction_class.operands
    ]
    return markdown_table(("parameter", "default", "values"), rows) if rows else ""


def _state(instruction_class: type[Instruction]) -> str:
    """The section on accesses other than to tiles: registers, hidden state, other cores."""
    visible = {field.name for field in _call_fields(instruction_class)}
    rows = [
        (f"`{name}`, where it is a register", _ACCESS_WORDS[access])
        for name, access in instruction_class.registers.items()
        if name in visible
    ]
    rows += [(use.state.value, _ACCESS_WORDS[use.access]) for use in instruction_class.state]
    if instruction_class.meeting is not Instruction.meeting:
        rows.append(("the other cores of its group", "waits for"))
    return markdown_table(("state", "access"), rows) if rows else ""


def _legal_values(instruction_class: type[Instruction], field: Field[Any]) -> str:
    """The legal values of a parameter: names of an enumeration, a table of operators, or a type."""
    if isinstance(field.default, Engine):
        return ", ".join(engine.name for engine in Engine if _may_name(instruction_class, engine))
    if isinstance(field.default, Enum):
        return ", ".join(member.name for member in type(field.default))
    if "op" in re.split(r"[_\d]", field.name):
        return "an operator or function of `nl`: [operators](operators.md)"
    return str(field.type).replace(" | ", " or ")


def _may_name(instruction_class: type[Instruction], engine: Engine) -> bool:
    """True if some case on some core is legal with that engine named."""
    instances = [on_engine(instance, engine) for instance in examples(instruction_class)]
    is_named = engine is not Engine.unknown
    return is_named and any(cost_if_legal(i, core) for i in instances for core in cores())


def _engines(instruction_class: type[Instruction], instances: Sequence[Instruction]) -> str:
    rows = [
        (engine.label, *("yes" if core in supporting else _EMPTY_CELL for core in cores()))
        for engine, supporting in _support(instruction_class, instances).items()
    ]
    return markdown_table(("engine", *(core.name for core in cores())), rows)


def _support(
    instruction_class: type[Instruction], instances: Iterable[Instruction]
) -> dict[Engine, list[NeuronCore]]:
    """Engine -> the cores on which one of the instances is legal on this engine."""
    cores_of: dict[Engine, list[NeuronCore]] = {engine: [] for engine in instruction_class.engines}
    for instance in instances:
        for core in cores():
            supporting = cores_of[instance.chosen_engine(core)]
            if core not in supporting and cost_if_legal(instance, core) is not None:
                supporting.append(core)
    return {
        engine: sorted(supporting, key=cores().index) for engine, supporting in cores_of.items()
    }


def cost_if_legal(instance: Instruction, core: NeuronCore) -> Cost | None:
    """The cost of the instance on a core; None if it is illegal there."""
    try:
        return instance.cost(core, instance.verify(core))
    except IllegalInstruction:
        return None


def _family_constraints(instruction_class: type[Instruction]) -> str:
    """The constraints that a collective inherits from its bases, "" for other instructions."""
    constraints = []
    for base in instruction_class.__mro__[1:] if instruction_class.meets_ranks else ():
        check = vars(base).get("check")
        is_inherited = check is not None and check is not instruction_class.check
        if is_inherited and base is not Instruction:
            text = _Docstring(check.__doc__ or "")
            constraints.append(f"- {text.summary}\n{text.body}".strip())
    return "\n".join(constraints)


def _constraints(instruction_class: type[Instruction]) -> str:
    """The section on constraints: those of the declarations, then the docstring of `check`."""
    operands = instruction_class.operands.values()
    axes = [axis for operand in operands for axis in operand.axes]
    shared = sorted({axis for axis in axes if axes.count(axis) > 1} - {"1"})
    is_on_chip = any(memory.is_on_chip for operand in operands for memory in operand.memories)
    rules = []
    if shared:
        rules.append(f"Axes of one letter have one length: {', '.join(shared)}.")
    if is_on_chip and ON_PARTITIONS.intersection(instruction_class.engines):
        rules.append(_START_PARTITION_RULE)
    if is_on_chip:
        rules.append(_views(instruction_class))
    check_rules = ""
    if instruction_class.check is not Instruction.check:
        text = _Docstring(instruction_class.check.__doc__ or "")
        check_rules = f"- {text.summary}\n{text.body}".strip()
    sections = [check_rules, _family_constraints(instruction_class)]
    return "\n".join([*filter(None, sections), *(f"- {rule}" for rule in rules if rule)])


def _views(instruction_class: type[Instruction]) -> str:
    """The operands that `.indirect()` may gather or scatter, in words."""
    if not instruction_class.indirect:
        return ""
    dst, src = instruction_class.indirect
    if not dst:
        return "No operand may be an `.indirect()` view."
    since = where(lambda core: core.features.indirection)
    return f"{since[0].upper()}{since[1:]} `{dst}` and `{src}` may be `.indirect()` views."


def _values(instruction_class: type[Instruction], text: _Docstring) -> str:
    execute = _Docstring(instruction_class.execute.__doc__ or "")
    return "\n\n".join(filter(None, [text.body, execute.summary, execute.body]))


def _cost(instruction_class: type[Instruction], instances: Sequence[Instruction]) -> str:
    """The section on cost: the formula, the cost of each typical instance, the facts used."""
    formula = _Docstring(instruction_class.cost.__doc__ or "")
    legal_instances = [i for i in instances if any(cost_if_legal(i, core) for core in cores())]
    cases = list(dict.fromkeys(map(description, legal_instances)))
    rows = [
        (
            str(cases.index(description(i)) + 1),
            i.chosen_engine(cores()[-1]).label,
            *(_cost_in_ns(i, core) for core in cores()),
        )
        for i in legal_instances
    ]
    costs = [cost_if_legal(i, core) for i in legal_instances for core in cores()]
    parts = [
        formula.summary,
        formula.body,
        f"Formula: {formula.source}" if formula.source else "",
        _MIN_II_NOTE if "MIN_II" in f"{formula.summary} {formula.body}" else "",
        _ISSUE_TIME_NOTE if any(c and c.issue_s for c in costs) else "",
        "Initiation interval (the engine is busy) + latency until the result can be read:",
        markdown_table(("case", "engine", *(core.name for core in cores())), rows),
        "\n".join(f"{number}. {case}" for number, case in enumerate(cases, 1)),
        _facts(legal_instances),
    ]
    return "\n\n".join(filter(None, parts))


def _cost_in_ns(instance: Instruction, core: NeuronCore) -> str:
    cost = cost_if_legal(instance, core)
    if cost is None:
        return _EMPTY_CELL
    issue = f"{cost.issue_s * _NS_PER_S:,.0f} / " if cost.issue_s else ""
    return f"{issue}{cost.interval_s * _NS_PER_S:,.0f} + {cost.latency_s * _NS_PER_S:,.0f} ns"


def description(instance: Instruction) -> str:
    """An instance in words: its tiles, and the parameters that differ from their defaults."""
    words = []
    for field in fields(instance):
        value = getattr(instance, field.name)
        if isinstance(value, Tile) or (isinstance(value, tuple) and field.name == "srcs"):
            words.append(f"{field.name} {_tiles(value)}")
        elif _is_telling(field, value):
            words.append(f"{field.name}={_short(value)}")
    return ", ".join(words) or "no operands"


def _tiles(value: Any) -> str:
    tiles = value if isinstance(value, tuple) else (value,)
    return " and ".join(f"{t.dtype} {list(t.shape)} in {t.memory.value}" for t in tiles)


def _is_telling(field: Field[Any], value: object) -> bool:
    """True if a parameter is worth showing: set, not the default, and not an engine."""
    return value is not None and value != field.default and not isinstance(value, Engine)


def _short(value: object) -> str:
    """A value as a kernel writes it, shortened if it is long."""
    text = _value(value)
    return text if len(text) <= _LONGEST_VALUE_CHARS else f"{text[:_LONGEST_VALUE_CHARS]}..."


def _facts(instances: Iterable[Instruction]) -> str:
    """A table of the hardware facts on which the costs of these instructions rest.

    It gives each fact's value on every core and the kind of its source; "" if there are none.
    """
    fact_names = sorted({name for i in instances for name in facts_read(i)})
    rows = [(f"`{name}`", *(_fact(core.facts()[name]) for core in cores())) for name in fact_names]
    header = ("fact", *(core.name for core in cores()))
    heading = "The facts that it rests on; [how true they are](../how-true.md) has their sources:"
    return f"{heading}\n\n{markdown_table(header, rows)}" if rows else ""


def _fact(fact: Fact) -> str:
    return f"{fact:g} {fact.provenance.kind.value}"


def facts_read(instance: Instruction) -> set[str]:
    """Names of the facts that pricing the instance reads, on any core."""
    read_facts: set[str] = set()
    for core in cores():
        try:
            n = instance.verify(core)
        except IllegalInstruction:
            continue
        recording_core: Any = _RecordingCore(core, read_facts)
        instance.cost(recording_core, n)
    return read_facts


class _RecordingCore:
    """A proxy of a core that records which of its facts are read."""

    def __init__(self, core: NeuronCore, facts_read: set[str]) -> None:
        self._core = core
        self._read = facts_read

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._core, name)
        if isinstance(value, Count | Rate):
            self._read.add(name)
        return value
