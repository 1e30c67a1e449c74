from trnsim.errors import SourceLine
from trnsim.jobs.finding import JobRule, Severity, Violation
from trnsim.jobs.job import Job, Role
from trnsim.jobs.rules import RULES, findings
from trnsim.jobs.spec import JobSpec, TemplateValue


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
