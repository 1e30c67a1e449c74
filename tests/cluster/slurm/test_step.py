"""A step from its variables: each that is missing, malformed or contradicts another is named."""

import pytest
from slurm_cases import STEP, VARIABLES

from trnsim.cluster.slurm.step import step_of
from trnsim.errors import BadInput


def test_a_step_is_read_from_its_variables():
    step = step_of(VARIABLES)
    assert step == STEP
    assert (step.host, step.name, step.is_first) == ("n2", "7.0", False)
    later = {"SLURM_STEP_NODELIST": "", "SLURM_JOB_NODELIST": "a,b", "SLURM_RESTART_COUNT": "3"}
    assert (step_of(VARIABLES | later).host, step_of(VARIABLES | later).restart) == ("b", 3)


@pytest.mark.parametrize("variable", sorted(VARIABLES))
def test_a_missing_variable_is_named(variable):
    with pytest.raises(BadInput, match=f"^{variable} is not set") as raised:
        step_of({name: text for name, text in VARIABLES.items() if name != variable})
    assert "srun trnsim slurm launch -- PROGRAM" in raised.value.fix


@pytest.mark.parametrize(
    ("variable", "text", "reason"),
    [
        ("SLURM_JOB_ID", "7a", "SLURM_JOB_ID='7a'; legal: a number from 0 on"),
        ("SLURM_STEP_ID", "-1", "SLURM_STEP_ID='-1'; legal: a number from 0 on"),
        ("SLURM_JOB_ID", "9" * 30, "legal: a number from 0 on"),
        ("SLURM_JOB_ID", "\u0667", "legal: a number from 0 on"),
        ("SLURM_NODEID", "2", "SLURM_NODEID=2; legal: 0 to 1, by the step's nodes and tasks"),
        ("SLURM_PROCID", "2", "SLURM_PROCID=2; legal: 0 to 1"),
        ("SLURM_LOCALID", "1", "SLURM_LOCALID=1; legal: 0 to 0"),
        ("SLURM_STEP_TASKS_PER_NODE", "1", "has 1 node, and SLURM_STEP_NODELIST='n[1-2]' has 2"),
        ("SLURM_STEP_TASKS_PER_NODE", "1(x2", "is no list of tasks a node"),
        ("SLURM_STEP_NODELIST", "n[1-2", "SLURM_STEP_NODELIST='n[1-2' is no list of hosts"),
        ("SLURM_RESTART_COUNT", "x", "SLURM_RESTART_COUNT='x'; legal"),
    ],
)
def test_a_variable_that_is_not_legal_is_named_with_what_it_holds(variable, text, reason):
    with pytest.raises(BadInput) as raised:
        step_of(VARIABLES | {variable: text})
    assert reason in raised.value.reason
