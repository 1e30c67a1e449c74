"""Each rule has a job that breaks it, written in every format that can, and a legal twin."""

from dataclasses import replace

import pytest

from trnsim.errors import SourceLine
from trnsim.jobs.formats import FORMATS, read_specs, write_spec
from trnsim.jobs.job import Job, JobKind, Role
from trnsim.jobs.rules import findings
from trnsim.jobs.rules.devices import RULES
from trnsim.jobs.spec import JobSpec

TRN1, TRN2, INF2, P5 = "trn1.32xlarge", "trn2.48xlarge", "inf2.48xlarge", "p5.48xlarge"
KUBERNETES = (
    *("pod", "leaderworkerset"),
    *("job", "jobset", "pytorchjob", "hyperpod", "mpijob", "rayjob"),
)
SEVERAL = KUBERNETES[2:]
ROLE = Role(name="Worker", image="me/train", command=("python", "train.py"), entry_words=2)
VISIBLE, COUNT = "NEURON_RT_VISIBLE_CORES", "NEURON_RT_NUM_CORES"
NEURON, EFA = "aws.amazon.com/neuron:", "vpc.amazonaws.com/efa:"


def text_of(role, name):
    """A job of a role in a format, with the other roles that the format demands."""
    roles = (role,)
    if name == "mpijob":
        roles = (replace(ROLE, name="Launcher"), role)
    if name == "rayjob":
        roles = (replace(ROLE, name="head"), replace(role, command=(), entry_words=0))
    kind = JobKind.SERVING if name == "leaderworkerset" else JobKind.TRAINING
    return write_spec(Job(name="job", kind=kind, roles=roles), name)


def found(text, name, folder):
    """Findings of these rules in a text, and the lines that they name."""
    path = folder / f"job{FORMATS[name].suffix}"
    path.write_text(text, encoding="utf-8")
    lines = text.splitlines()
    each_finding = [found for spec in read_specs(path) for found in findings(spec, RULES)]
    return [(each.rule, lines_of(lines, each, name), each.reason) for each in each_finding]


def lines_of(lines, finding, name):
    """The line of a finding; of an object in JSON, which begins with a brace, the next one too."""
    return " ".join(lines[finding.place.line - 1 :][: 2 if name == "ecs" else 1])


def role(instance=TRN1, environment=(), **fields):
    """A replica on an instance."""
    return replace(ROLE, instance=instance, environment=tuple(environment), **fields)


def cores(value, instance=TRN1, **fields):
    """A replica that names its cores."""
    return role(instance, [(VISIBLE, value)], **fields)


def numbers(instance, *indexes):
    """A replica whose devices are named."""
    return role(instance, devices=len(indexes), device_indexes=indexes)


BROKEN = [
    ("instance-type", KUBERNETES, "trn1.33xlarge", role("trn1.33xlarge"), role("trn1.32xlarge")),
    ("instance-type", ("pod",), "inf2.4xlarge", role("inf2.4xlarge"), role("inf2.8xlarge")),
    (
        *("instance-type", ("batch",), "trn2.48large"),
        role("trn2.48large", entry_words=0, replicas=2, is_exclusive=True),
        role("trn9.48large", entry_words=0, replicas=2, is_exclusive=True),
    ),
    ("accelerator-count", KUBERNETES, NEURON, role(devices=17), role(devices=16)),
    ("accelerator-count", KUBERNETES, NEURON, role(P5, devices=1), role(P5, gpus=8)),
    ("accelerator-count", KUBERNETES, "nvidia.com/gpu:", role(P5, gpus=9), role(P5, gpus=8)),
    ("accelerator-count", ("pod",), "nvidia.com/gpu:", role(gpus=1), role(devices=1)),
    ("accelerator-count", ("pod",), "aws.amazon.com/neuroncore:", role(cores=33), role(cores=32)),
    ("device-count", KUBERNETES, NEURON, role(devices=2), role(devices=4)),
    ("device-count", ("pod",), NEURON, role("trn1n.32xlarge", devices=7), role(INF2, devices=7)),
    ("device-group", KUBERNETES, NEURON, role(TRN2, devices=5), role(TRN2, devices=8)),
    (
        *("device-group", ("ecs",), "/dev/neuron"),
        *(numbers(TRN1, 1, 2, 3, 4), numbers(TRN1, 4, 5, 6, 7)),
    ),
    (
        *("device-run", ("ecs",), "/dev/neuron"),
        *(numbers(INF2, 0, 2), numbers(INF2, 1, 2)),
    ),
    ("visible-cores", (*KUBERNETES, "ecs"), "0,2", cores("0,2"), cores("0,1")),
    ("visible-cores", ("pod",), "0-3,3", cores("0-3,3"), cores("0-3")),
    ("visible-cores", ("pod",), "all", cores("all"), cores("${CORES}")),
    ("core-count", (*KUBERNETES, "ecs"), "0-3", cores("0-3", devices=1), cores("2-3", devices=1)),
    ("core-count", ("pod",), "30-32", cores("30-32"), cores("30-31")),
    ("core-count", ("pod",), "0-1", cores("0-1", cores=1), cores("3", cores=1)),
    (
        *("core-count", KUBERNETES, "129"),
        *(role(TRN2, [(COUNT, "129")]), role(TRN2, [(COUNT, "128")])),
    ),
    (
        *("core-count", ("pod",), "65"),
        role(TRN2, [(COUNT, "65"), ("NEURON_RT_VIRTUAL_CORE_SIZE", "2")]),
        role(TRN2, [(COUNT, "64"), ("NEURON_RT_VIRTUAL_CORE_SIZE", "2")]),
    ),
    (
        *("core-precedence", ("pod", "ecs"), "32"),
        role(TRN2, [(VISIBLE, "0-15"), (COUNT, "32")]),
        role(TRN2, [(VISIBLE, "0-15"), (COUNT, "16")]),
    ),
    (
        *("core-precedence", ("pod",), "2"),
        role(TRN2, [(VISIBLE, "3"), (COUNT, "2")]),
        role(TRN2, [(VISIBLE, "3"), (COUNT, "0")]),
    ),
    (
        *("shared-core", ("pytorchjob", "mpijob"), "0-1"),
        *(cores("0-1", processes=3), cores("0-1", processes=2)),
    ),
    ("efa-count", KUBERNETES, EFA, role(efa=9, devices=16), role(efa=8, devices=16)),
    ("efa-count", ("pod",), EFA, role(P5, efa=33), role(P5, efa=32)),
    (
        *("efa-all", SEVERAL, EFA),
        *(role(devices=16, efa=4, replicas=2), role(devices=16, efa=8, replicas=2)),
    ),
    (
        *("efa-all", SEVERAL, NEURON),
        *(role(devices=16, replicas=2), role(devices=8, replicas=2)),
    ),
]  # fmt: skip


def check(folder, case, form):
    """Checks that a job breaks a rule in a format at its line, and that its twin does not."""
    name, _, line, broken, legal = case
    ((rule, named, _),) = found(text_of(broken, form), form, folder)
    assert rule == name
    assert line in named
    assert found(text_of(legal, form), form, folder) == []


@pytest.mark.parametrize("case", BROKEN)
def test_a_job_that_breaks_a_rule_has_a_finding_and_its_twin_none(tmp_path, case):
    check(tmp_path, case, case[1][0])


@pytest.mark.parametrize(
    ("instance", "reason"),
    [
        ("ml.trn1.33xlarge", "trn1.33xlarge is no instance type of EC2"),
        ("trn1n.2xlarge", "trn1n.2xlarge is no instance type of EC2"),
        ("trn1.", "trn1. is no instance type of EC2"),
        ("ml.trn1.2xlarge", None),
        ("trn1.${SIZE}", None),
        ("trn1", None),
        ("m5.33xlarge", None),
        ("", None),
    ],
)
def test_sizes_are_judged_of_families_that_are_known(tmp_path, instance, reason):
    place = tmp_path / "job.yaml"
    place.write_text(text_of(role(), "pod"), encoding="utf-8")
    (spec,) = read_specs(place)
    rows = findings(spec.with_job(roles=(Role(instance=instance),)), RULES)
    assert [row.reason for row in rows] == ([] if reason is None else [reason])
    assert all(row.fix.startswith("name trn1") for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("case", BROKEN)
def test_it_has_the_finding_in_every_format_that_can_break_the_rule(tmp_path, case):
    for form in case[1][1:]:
        check(tmp_path, case, form)


def test_every_rule_is_broken_here():
    tested = {name for name, *_ in BROKEN} | {"resource-limit", "text-value"}
    assert tested == {rule.name for rule in RULES}


@pytest.mark.parametrize(
    ("instance", "fields"),
    [
        ("", {"devices": 99, "gpus": 99, "efa": 99, "cores": 999}),
        ("trn9.48xlarge", {"devices": 99}),
        ("trn2u.48xlarge", {"devices": 16, "efa": 16}),
        ("ml.trn1.32xlarge", {"devices": 16, "efa": 8}),
        ("trn1.2xlarge", {"devices": 1}),
        (P5, {"gpus": 8, "efa": 4}),
        (TRN1, {"devices": 16, "is_privileged": True, "replicas": 4}),
        (TRN1, {"devices": 0}),
        (TRN1, {}),
    ],
)
def test_what_is_not_stated_or_not_of_neuron_has_no_finding(tmp_path, instance, fields):
    form = "pytorchjob"
    assert found(text_of(role(instance, **fields), form), form, tmp_path) == []


def test_the_words_are_those_of_the_scheduler(tmp_path):
    ((_, _, reason),) = found(text_of(role(devices=2), "pod"), "pod", tmp_path)
    assert reason == (
        "Instance type trn1.32xlarge does not support requests for device: 2. "
        "Please request a different number of devices."
    )


def test_devices_of_other_schedulers_may_have_any_number(tmp_path):
    for count in (2, 5):
        text = text_of(role(devices=count), "sbatch")
        assert found(text, "sbatch", tmp_path) == []


def test_containers_of_a_task_have_cores_of_their_own():
    roles = (cores("0-3"), replace(cores("3-4"), name="other"))
    spec = JobSpec("ecs", Job(roles=roles), SourceLine("f", 1))
    (finding,) = findings(spec, RULES)
    assert (finding.rule, finding.reason) == (
        "shared-core",
        "core 3 is that of 'Worker' too, on the same instance",
    )
    apart = (replace(roles[0], device_indexes=(0, 1)), replace(roles[1], device_indexes=(2,)))
    apart = tuple(replace(each, instance="") for each in apart)
    for legal in (apart, (roles[0], cores("4-5")), (role(), role())):
        assert findings(JobSpec("ecs", Job(roles=legal), SourceLine("f", 1)), RULES) == []
    assert findings(JobSpec("jobset", Job(roles=roles), SourceLine("f", 1)), RULES) == []


POD = """\
apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  restartPolicy: Never
  containers:
    - name: a
      image: a
      command: [python, a.py, "8"]
      env:
        - {name: A, value: "8"}
      resources:
        limits:
          aws.amazon.com/neuron: 4
          hugepages-2Mi: 1Gi
          memory: 8Gi
        requests:
          aws.amazon.com/neuron: 4
          hugepages-2Mi: 1024Mi
          memory: 4Gi
"""


@pytest.mark.parametrize(
    ("before", "after", "rule", "line"),
    [
        ("neuron: 4\n          hugepages-2Mi: 1024Mi", "neuron: 8", "resource-limit", 18),
        ("          aws.amazon.com/neuron: 4\n          hugepages-2Mi: 1Gi\n", "", "", 0),
        ("hugepages-2Mi: 1024Mi", "hugepages-2Mi: 1025Mi", "resource-limit", 19),
        ("hugepages-2Mi: 1024Mi", "vpc.amazonaws.com/efa: 8", "resource-limit", 19),
        ("hugepages-2Mi: 1024Mi", "vpc.amazonaws.com/efa: $EFA", "", 0),
        ("neuron: 4\n          hugepages-2Mi: 1Gi", "neuron: $N", "resource-limit", 18),
        ('value: "8"', "value: 8", "text-value", 11),
        ('value: "8"', "value: true", "text-value", 11),
        ('value: "8"', "value:", "", 0),
        ('a.py, "8"', "a.py, 8", "text-value", 9),
        ('a.py, "8"', "a.py, false", "text-value", 9),
    ],
)
def test_what_kubernetes_refuses_is_found_at_its_line(tmp_path, before, after, rule, line):
    assert found(POD, "pod", tmp_path) == []
    path = tmp_path / "pod.yaml"
    path.write_text(POD.replace(before, after, 1))
    (spec,) = read_specs(path)
    each = [(finding.rule, finding.place.line) for finding in findings(spec, RULES)]
    if before.startswith("   "):
        assert each == [("resource-limit", 16), ("resource-limit", 17)]
    elif "$N" in after:
        assert each == [("resource-limit", 18)]
    else:
        assert each == ([(rule, line)] if rule else [])
    again = write_spec(spec.job, "pod")
    assert '"8"' in again or "'8'" in again or "true" in again or "8Gi" in again
