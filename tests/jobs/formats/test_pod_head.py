from dataclasses import replace

import pytest

from trnsim.jobs.formats.pod_head import has_head, with_head, without_head
from trnsim.jobs.job import Job, Role

COMMAND = ("torchrun", "--rdzv-endpoint", "$MASTER_ADDR:29500", "train.py")
JOB = Job(roles=(Role(command=COMMAND, environment=(("X", "1"),)), Role(name="other")))


def test_words_name_the_address_as_kubernetes_does():
    headed = with_head(JOB, "train-0.train")
    first, other = headed.roles
    assert first.command[2] == "$(MASTER_ADDR):29500"
    assert first.environment == (("MASTER_ADDR", "train-0.train"), ("X", "1"))
    assert other.environment == (("MASTER_ADDR", "train-0.train"),)
    assert without_head(headed, "train-0.train") == JOB


def test_an_operator_sets_the_variable_itself():
    headed = with_head(JOB, "")
    assert headed.roles[0].environment == (("X", "1"),)
    assert headed.roles[0].command[2] == "$(MASTER_ADDR):29500"
    assert without_head(headed, "") == JOB


@pytest.mark.parametrize(
    "job",
    [
        Job(),
        Job(roles=(Role(command=("train.py", "$OTHER")),)),
        Job(roles=(replace(JOB.roles[0], environment=(("MASTER_ADDR", "own"),)),)),
    ],
)
def test_other_jobs_stay_as_they_are(job):
    assert not has_head(job)
    assert with_head(job, "a") is job
    assert without_head(job, "a") is job


def test_an_address_of_the_users_own_stays():
    headed = with_head(JOB, "own-0.own")
    assert without_head(headed, "train-0.train") is headed
    assert without_head(headed, "") is headed
