from trnsim import observers
from trnsim.device import watch


def test_the_package_hands_in_what_keeps_the_state_of_the_process():
    assert [make() for make in observers.run_observer_factories] == [watch.RUNS]
