import pytest

from trnsim.jobs.job import Job, Role


def test_replicas_are_those_of_all_roles():
    assert Job().replicas == 0
    assert Job(roles=(Role(replicas=1), Role(replicas=3))).replicas == 4
    assert Job(roles=(Role(replicas=1), Role(replicas=None))).replicas is None


@pytest.mark.parametrize(
    ("environment", "lnc"),
    [
        ((), None),
        ((("NEURON_LOGICAL_NC_CONFIG", "1"),), 1),
        ((("NEURON_RT_VIRTUAL_CORE_SIZE", "2"),), 2),
        ((("NEURON_RT_VIRTUAL_CORE_SIZE", "${LNC}"),), None),
        ((("NEURON_RT_VIRTUAL_CORE_SIZE", "2"), ("NEURON_RT_VIRTUAL_CORE_SIZE", "1")), 1),
    ],
)
def test_lnc_is_what_the_environment_sets(environment, lnc):
    assert Role(environment=environment).lnc == lnc
