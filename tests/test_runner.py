"""`trnsim.run`: its arguments, and those of the kernel."""

from unittest.mock import ANY, Mock, call

import numpy as np
import pytest

import trnsim
from trnsim import arch, runner
from trnsim.errors import BadInput
from trnsim.nki import jit
from trnsim.nki import language as nl
from trnsim.runs import Launchable, RunObservers


@jit
def scaled(x, factor=2.0):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), factor))
    return out


@jit
def named(x, target, numerics):
    assert (target, numerics) == ("here", 3)
    return scaled(x)


@pytest.mark.parametrize(("target", "core"), [("trn1", 2), ("inf2", 2), ("gen3", 3), ("trn3", 4)])
def test_the_target_decides_the_core(target, core, random):
    assert trnsim.run(scaled, random((4, 8)), target=target).program.core.generation == core


def test_an_unknown_target_is_refused():
    with pytest.raises(BadInput, match="target 'trn9' is not known"):
        trnsim.run(scaled, np.zeros((4, 8), np.float32), target="trn9")


@pytest.mark.parametrize("numerics", ["fast", "exact", None, 2, np.ones(2)])
def test_numerics_are_computed_or_not(numerics):
    with pytest.raises(BadInput, match=r"^run\(numerics=.*\); legal: True, to compute values, or"):
        trnsim.run(scaled, np.ones((4, 4), np.float32), numerics=numerics)


def test_arguments_come_by_position_by_name_and_in_kernel_kwargs(random):
    x = random((4, 8))
    for run in (
        trnsim.run(scaled, x, 3.0),
        trnsim.run(scaled, x, factor=3.0),
        trnsim.run(scaled, x=x, kernel_kwargs={"factor": 3.0}),
    ):
        np.testing.assert_array_equal(run.outputs, np.float32(3) * x)


@pytest.mark.parametrize("keywords", [[3.0], "ab", 3, ()])
def test_kernel_kwargs_are_a_dictionary(keywords, random):
    with pytest.raises(BadInput, match="legal: a dictionary"):
        trnsim.run(scaled, random((4, 8)), kernel_kwargs=keywords)


def test_names_that_run_itself_uses_go_through_kernel_kwargs(random):
    trnsim.run(named, random((4, 8)), kernel_kwargs={"target": "here", "numerics": 3})


@pytest.mark.parametrize("thing", [len, "kernel", None, scaled.__wrapped__])
def test_what_is_no_kernel_is_refused(thing):
    with pytest.raises(BadInput, match=r"run was given .*; legal: a kernel") as caught:
        trnsim.run(thing)
    assert "@nki.jit" in caught.value.fix
    assert isinstance(scaled, Launchable)


def test_a_run_tells_who_observes_it_even_where_it_fails(monkeypatch, random):
    observer = Mock()
    monkeypatch.setattr(runner, "OBSERVERS", RunObservers())
    runner.OBSERVERS.present.append(observer)
    done = runner.observed_run(scaled, (random((4, 8)),), {}, arch.target("trn2"))
    assert observer.method_calls == [
        call.begins(None, 1),
        call.issues(ANY, "scaled", 0),
        call.ended(done, 0),
        call.all_over(),
    ]
    observer.reset_mock()
    with pytest.raises(BadInput):
        runner.observed_run(scaled, (), {}, arch.target("trn2"))
    assert [name for name, *_ in observer.method_calls] == ["begins", "issues", "all_over"]


@pytest.mark.parametrize(
    ("name", "value", "meaning", "fix"),
    [
        ("lnc", 2, "the NeuronCores of a rank", "run kernel[2] for both cores of a logical one"),
        ("instance", "trn2.48xlarge", "the instance type of the ranks", "target= for the chip"),
        ("inputs", (), "the arguments of each rank", "pass the arguments themselves"),
    ],
)
def test_a_keyword_that_goes_with_ranks_says_so_where_the_kernel_has_none(
    name, value, meaning, fix, random
):
    with pytest.raises(
        BadInput, match=rf"^run\({name}=\) without ranks=, and scaled has no p"
    ) as e:
        trnsim.run(scaled, random((4, 8)), **{name: value})
    assert e.value.reason.endswith(f"it is {meaning}")
    assert e.value.fix.startswith(f"write ranks= too, or {fix}")


def test_a_keyword_that_goes_with_ranks_may_be_a_parameter_of_the_kernel(random):
    @jit
    def of_instance(x, instance):
        assert instance == "mine"
        return scaled(x)

    trnsim.run(of_instance, random((4, 8)), instance="mine")


def test_a_keyword_that_goes_with_ranks_may_be_one_of_any_that_the_kernel_takes(random):
    @jit
    def of_any(x, **options):
        assert options == {"instance": "mine", "lnc": 2}
        return scaled(x)

    trnsim.run(of_any, random((4, 8)), instance="mine", lnc=2)
