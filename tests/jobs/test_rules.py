"""The rows of `tests/jobs/rules/twins`, each a spec that breaks a rule and its legal twin."""

import ast
import re
import shutil
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import trnsim.jobs
from trnsim.errors import SourceLine
from trnsim.jobs.finding import JobRule, Severity, Violation
from trnsim.jobs.formats import FORMATS, read_specs
from trnsim.jobs.formats.batch_request import apply_request
from trnsim.jobs.job import Job, Role
from trnsim.jobs.rules import RULES, findings
from trnsim.jobs.spec import JobSpec, TemplateValue

TWINS = Path(__file__).parent / "rules" / "twins"
MAIN = "config.yaml"
"""The file of NeMo's launcher beside the folder of its trainings."""
SPECS = {
    path.stem if path.suffix == ".yaml" else path.name: path
    for path in sorted((TWINS / "specs").rglob("*"))
    if path.is_file() and path.name != MAIN
}
PODS = (
    *("pod", "job", "jobset", "pytorchjob", "hyperpod", "mpijob", "rayjob", "leaderworkerset"),
    "batch_eks",
)
MARKED = re.compile(r"([+=]>|.) (.*)")
IN_SPEC, IN_TWIN, IN_BROKEN = " >-~", " >-*=", " >+="


class Row(NamedTuple):
    """A row: a rule, others that its change breaks too, and hunks of marked lines."""

    rule: str
    others: tuple[str, ...]
    specs: tuple[str, ...]
    hunks: tuple[tuple[str, ...], ...]

    def __str__(self):
        return f"{self.rule}-{self.specs[0]}"


def rows():
    """The rows of all files."""
    for path in sorted(TWINS.glob("*.txt")):
        for block in path.read_text().strip().split("\n\n"):
            head, _, body = block.partition("\n")
            rules, _, specs = head.partition(": ")
            rule, *others = re.split(r" with |, ", rules)
            hunks = tuple(tuple(hunk.splitlines()) for hunk in body.split("\n...\n"))
            names = specs.replace("pods", " ".join(PODS)).split()
            yield Row(rule, tuple(others), tuple(names), hunks)


def marked(row):
    """A row as a parameter; a price of a training takes a second."""
    return pytest.param(row, marks=[pytest.mark.slow] if row.rule == "checkpoint-interval" else [])


def changed(text, hunks):
    """The twin and the broken spec of a text, and the line of the finding."""
    lines = [(" ", line) for line in text.splitlines()]
    for hunk in hunks:
        marks = [MARKED.fullmatch(line).groups() for line in hunk]
        wanted = [line.strip() for mark, line in marks if mark[0] in IN_SPEC]
        stripped = [line.strip() for _, line in lines]
        size = len(wanted)
        starts = [at for at in range(len(lines)) if stripped[at : at + size] == wanted]
        assert len(starts) == 1, f"{wanted} stands {len(starts)} times"
        (start,) = starts
        own = iter([line for _, line in lines[start : start + size]])
        first = next(line for mark, line in marks if mark[0] in IN_SPEC)
        deeper = indent(lines[start][1]) - indent(first)
        lines[start : start + size] = [
            (mark, next(own) if mark[0] in IN_SPEC else " " * deeper + line) for mark, line in marks
        ]
    twin = [line for mark, line in lines if mark[0] in IN_TWIN]
    broken = [(mark, line) for mark, line in lines if mark[0] in IN_BROKEN]
    signs = [mark for mark, _ in broken]
    at = next(sign for sign in ("+>", "=>", ">", "+") if sign in signs)
    return joined(twin), joined([line for _, line in broken]), signs.index(at) + 1


def indent(line):
    return len(line) - len(line.lstrip())


def joined(lines):
    return "".join(f"{line}\n" for line in lines)


def checked(path):
    """The specs in a file, or in the one that it belongs to, and the lines of their findings."""
    if path.stem == "submit":
        specs = apply_request(read_specs(SPECS["batch"]), path)
    else:
        specs = read_specs(path.parents[1] / MAIN if path.parent.name == "training" else path)
    return specs, [(row.rule, row.place.line) for spec in specs for row in findings(spec)]


@cache
def legal(name):
    return checked(SPECS[name])


@pytest.mark.parametrize("name", SPECS)
def test_a_legal_spec_has_no_finding(name):
    assert legal(name)[1] == []


@pytest.mark.parametrize("row", [marked(row) for row in rows()], ids=str)
def test_a_rule_is_broken_at_its_line_and_its_legal_twin_has_no_finding(row, tmp_path):
    for name in row.specs:
        source = SPECS[name]
        text = source.read_text()
        twin, broken, line = changed(text, row.hunks)
        path = tmp_path / source.parent.name / source.name
        path.parent.mkdir(exist_ok=True)
        if source.parent.name == "training":
            shutil.copy(source.parents[1] / MAIN, tmp_path)
        if twin != text:
            path.write_text(twin)
            assert checked(path)[1] == [], name
        path.write_text(broken)
        rows_found = checked(path)[1]
        assert {at for rule, at in rows_found if rule == row.rule} == {line}, name
        assert {rule for rule, _ in rows_found} <= {row.rule, *row.others}, name


def test_every_rule_has_a_row_in_each_of_its_formats():
    formats = {name: legal(name)[0][0].format for name in SPECS}
    shown = {(row.rule, formats[name]) for row in rows() for name in row.specs}
    needed = {(rule.name, name) for rule in RULES for name in rule.formats}
    assert sorted(needed - shown) == []
    assert {rule.name for rule in RULES} == {rule for rule, _ in shown}
    assert {name for _, name in shown} == set(FORMATS) - {"plan"}


def test_a_fault_of_a_field_has_a_rule():
    """The names of faults in the source, which a finding carries, are those of rules."""
    names = set()
    for path in Path(trnsim.jobs.__path__[0]).rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "FieldFault(" in text else ():
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "FieldFault":
                names.add(node.args[1].value)
    assert names
    assert names <= {rule.name for rule in RULES}


def test_a_rule_has_a_name_of_its_own_and_a_source():
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert all(rule.help and rule.source for rule in RULES)


def of_two_fields(spec):
    del spec
    yield Violation("roles.0.efa", "efa is 3", "set 1")
    yield Violation("name", "name is ''", "give it")


def test_findings_have_lines_and_their_order_and_templates_have_none():
    rule = JobRule("a", "help.", "source", of_two_fields, Severity.WARNING)
    lines = {"roles.0.efa": SourceLine("f", 9), "name": SourceLine("f", 2)}
    spec = JobSpec("pod", Job(roles=(Role(),)), SourceLine("f", 1), lines)
    assert findings(spec, [rule]) == [
        ("a", "warning", SourceLine("f", 2), "name is ''", "source", "give it"),
        ("a", "warning", SourceLine("f", 9), "efa is 3", "source", "set 1"),
    ]
    template = TemplateValue("name", "$NAME", SourceLine("f", 2))
    spec = JobSpec("pod", spec.job, spec.start, lines, (template,))
    assert [finding.place.line for finding in findings(spec, [rule])] == [9]
