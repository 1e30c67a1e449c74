"""`nki.simulator`: the module in which others look for `simulate_kernel`."""

import nki.simulator

from trnsim.nki import entry


def test_it_holds_the_entry_point_of_that_name():
    assert nki.simulator.simulate_kernel is entry.simulate_kernel
