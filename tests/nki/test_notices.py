"""Where AWS's simulator is more lenient than the chip, a warning stands for the error."""

import warnings

import numpy as np
import pytest

import trnsim
from trnsim.errors import IllegalInstruction
from trnsim.nki import jit, notices, simulate
from trnsim.nki import language as nl
from trnsim.nki.notices import RaceWarning, SimulatorOnlyWarning


def test_what_the_compiler_refuses_is_an_error():
    with pytest.raises(IllegalInstruction, match="reason") as caught:
        notices.refuse_or_warn("reason", "fix", "source")
    assert (caught.value.fix, caught.value.source) == ("fix", "source")


def test_on_awss_simulator_it_is_a_warning_at_the_users_line():
    with notices.as_simulator(True), pytest.warns(SimulatorOnlyWarning, match="reason") as caught:
        notices.refuse_or_warn("reason", "the fix", "the source")
    (warning,) = caught
    assert warning.filename == __file__
    assert all(
        word in str(warning.message) for word in ("the fix", "the source", "AWS's simulator")
    )
    with pytest.raises(IllegalInstruction):
        notices.refuse_or_warn("reason", "fix", "source")


def test_a_line_warns_once():
    with warnings.catch_warnings(record=True) as caught, notices.as_simulator(True):
        warnings.simplefilter("default")
        for _ in range(3):
            notices.refuse_or_warn("again and again", "fix", "source")
    assert len(caught) == 1


def test_the_races_of_a_run_are_one_warning():
    notices.warn_of_races(())
    with pytest.warns(RaceWarning, match="first\n  and 2 more"):
        notices.warn_of_races(("first", "second", "third"))
    with pytest.warns(RaceWarning, match="^alone$"):
        notices.warn_of_races(("alone",))


def test_a_list_among_the_arguments_of_a_kernel_is_refused_and_one_in_an_object_is_not():
    class Config(nl.NKIObject):
        pass

    @jit
    def kernel(x, perm=(0, 1), config=None):
        assert config is None or (perm == (1, 0) and isinstance(config.perm, list))
        return x

    x = np.ones((4, 8), np.float32)
    trnsim.run(kernel, x, (1, 0), Config(perm=[0, 1]))
    for given, name in (([1, 0], "perm"), (([1, 0],), r"perm\[0\]"), ([], "perm")):
        message = f"argument `{name}` is a list under NKI"
        with pytest.raises(IllegalInstruction, match=message) as caught:
            trnsim.run(kernel, x, perm=given)
        assert caught.value.source.endswith("Replace list kernel arguments with tuples")
    with pytest.warns(SimulatorOnlyWarning, match="argument `perm` is a list"):
        simulate(kernel)(x, [1, 0])
