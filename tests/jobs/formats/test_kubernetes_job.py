import pytest
from kubernetes_jobs import read

from trnsim.errors import BadInput
from trnsim.jobs.formats import write_spec
from trnsim.jobs.job import Job, JobKind, Role

JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: pretrain}
spec:
  completionMode: Indexed
  completions: 4
  parallelism: 4
  backoffLimit: 0
  activeDeadlineSeconds: 86400
  template:
    spec:
      restartPolicy: OnFailure
      containers:
        - name: train
          image: me/train
          command: [python, train.py]
          resources: {limits: {aws.amazon.com/neuroncore: 2}}
"""
COUNTS = "  completionMode: Indexed\n  completions: 4\n  parallelism: 4\n"


def test_a_job_is_read_whole_and_written_back(tmp_path):
    spec = read("job", JOB, tmp_path)
    (role,) = spec.job.roles
    assert role == Role(
        name="train",
        replicas=4,
        cores=2,
        image="me/train",
        command=("python", "train.py"),
        entry_words=2,
    )
    assert (spec.job.name, spec.job.copies, spec.job.time_limit_s) == ("pretrain", 1, 86400)
    assert [kept.name for kept in spec.job.kept_fields] == [
        "spec.backoffLimit",
        "spec.template.spec.restartPolicy",
    ]
    assert (spec.line_of("roles.0.replicas").line, spec.line_of("roles.0.cores").line) == (6, 17)
    text = write_spec(spec.job, "job")
    assert "restartPolicy: OnFailure" in text
    assert read("job", text, tmp_path).job == spec.job


@pytest.mark.parametrize(
    ("counts", "copies", "replicas"),
    [
        ("", 1, 1),
        ("completions: 1, parallelism: 1", 1, 1),
        ("completions: 8, parallelism: 8", 8, 1),
        ("completions: 8, parallelism: 2", 8, 1),
        ("completions: 8", 8, 1),
        ("parallelism: 8", 8, 1),
        ("completionMode: Indexed, completions: 8, parallelism: 2", 8, 1),
        ("completionMode: Indexed, completions: 8", 8, 1),
        ("completionMode: Indexed, completions: 8, parallelism: 8", 1, 8),
        ("completionMode: Indexed, completions: 0, parallelism: 0", 1, 0),
        ("completionMode: NonIndexed, completions: 8, parallelism: 8", 8, 1),
        ("completionMode: Indexed, completions: $N, parallelism: 8", 1, None),
        ("completions: $N, parallelism: $N", 1, 1),
    ],
)
def test_pods_are_replicas_or_copies(tmp_path, counts, copies, replicas):
    head, tail = JOB.split(COUNTS)
    lines = "".join(f"  {part.strip()}\n" for part in counts.split(",") if part)
    spec = read("job", head + lines + tail, tmp_path)
    assert (spec.job.copies, spec.job.roles[0].replicas) == (copies, replicas)
    text = write_spec(spec.job, "job")
    assert read("job", text, tmp_path).job == spec.job
    stated = {part.strip() for part in counts.split(",") if part}
    assert stated <= {line.strip() for line in text.splitlines()}
    assert text.count("completions:") == counts.count("completions:")
    assert text.count("parallelism:") == counts.count("parallelism:")


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("completions: 4", "completions: four", "6: spec.completions is 'four'; legal: a whole"),
        ("completions: 4", "completions: -4", "6: spec.completions is -4; legal: a whole"),
        ("completions: 4", "completions: 2147483648", "6: .*legal: a whole number from 0 to"),
        ("parallelism: 4", "parallelism: [4]", "7: spec.parallelism is .*; legal: a whole"),
        ("template:\n    spec:", "template:\n    spec: a\n    x:", "11: spec.template.spec is 'a'"),
        ("metadata: {name: pretrain}", "metadata: pretrain", "3: metadata is 'pretrain'; legal"),
        ("name: pretrain", "name: [pretrain]", r"3: metadata.name is \['pretrain'\]; legal: text"),
    ],
)
def test_a_malformed_job_is_refused_at_its_line(tmp_path, before, after, why):
    with pytest.raises(BadInput, match=why):
        read("job", JOB.replace(before, after, 1), tmp_path)


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (Job(roles=(Role(replicas=2),), copies=2), "2 copies of 2 replicas; the pods of a Job"),
        (Job(roles=(Role(),), kind=JobKind.SERVING), "a Job runs to its end; the job is of kind"),
        (Job(roles=(Role(replicas=None),)), "the number of replicas is not stated"),
        (Job(roles=(Role(), Role())), "the job has 2 roles; a Job has one role"),
    ],
)
def test_a_job_that_is_no_job_of_kubernetes_is_refused(job, why):
    with pytest.raises(BadInput, match=why):
        write_spec(job, "job")
