from dataclasses import replace

from trnsim.errors import SourceLine
from trnsim.jobs.difference import changes, new_findings
from trnsim.jobs.finding import Finding
from trnsim.jobs.job import Job, KeptField, Role
from trnsim.jobs.parallelism import Parallelism

JOB = Job(
    name="a",
    roles=(Role(replicas=2, environment=(("X", "1"), ("Y", "2")), command=("train.py",)),),
    parallelism=Parallelism(tensor=8),
    kept_fields=(KeptField(("b", 0), "c"),),
)


def test_equal_jobs_do_not_differ():
    assert changes(JOB, replace(JOB)) == []


def test_fields_variables_and_kept_fields_are_compared():
    (role,) = JOB.roles
    role = replace(role, replicas=4, environment=(("Y", "2"), ("X", "3")), command=("b.py",))
    after = replace(JOB, roles=(role,), parallelism=Parallelism(), kept_fields=())
    assert changes(JOB, after) == [
        ("roles.0.replicas", 2, 4),
        ("roles.0.environment.X", "1", "3"),
        ("roles.0.command", ("train.py",), ("b.py",)),
        ("parallelism.tensor", 8, None),
        ("kept b[0]", "c", None),
    ]


def test_a_role_that_appears_has_its_fields():
    after = replace(JOB, roles=(*JOB.roles, Role(name="head", replicas=1)))
    named = {change.field: change.after for change in changes(JOB, after)}
    assert named["roles.1.name"] == "head"
    assert named["roles.1.replicas"] == 1
    assert "roles.1.efa" not in named


def test_a_finding_on_another_line_is_no_new_one():
    finding = Finding("a", "error", SourceLine("f", 1), "why", "source", "fix")
    moved = finding._replace(place=SourceLine("f", 9))
    other = finding._replace(reason="else")
    assert new_findings([finding], [moved, other]) == [other]
