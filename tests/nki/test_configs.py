"""Configurations of kernels: their options, what they change, kernels that call kernels."""

import copy
import inspect

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki.compiler import AddressRotation, CompileConfig, SpecializationConfig

import trnsim
from trnsim.behaviours import VERSIONS
from trnsim.behaviours.chosen import pinned
from trnsim.errors import BadInput, IllegalInstruction, OutOfMemory
from trnsim.nki.configs import NestedConfigWarning
from trnsim.user_warnings import SpillWarning

X = np.ones((4, 4), np.float32)
OPTIONS = {
    "address_rotation": AddressRotation.DISABLE,
    "non_ssa_legalization": True,
    "dead_code_elim": False,
    "barrier_check": True,
    "prefetch_auto": True,
    "nki_alloc_fallback": False,
}


def double(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out, nl.multiply(tile, 2.0))
    return out


@pytest.mark.parametrize("name", OPTIONS)
def test_a_kernel_has_its_values_with_any_option(name):
    config = CompileConfig(**{name: OPTIONS[name]})
    assert getattr(config, name) == OPTIONS[name]
    kernel = nki.jit(double, compile_config=config)
    assert kernel.options == {"compile_config": config}
    np.testing.assert_array_equal(kernel(X), 2 * X)
    decorated = nki.jit(compile_config=config)(double)
    np.testing.assert_array_equal(decorated[1](X), 2 * X)
    assert copy.deepcopy(config) == config


def test_options_have_the_documented_order_and_defaults():
    assert list(inspect.signature(CompileConfig).parameters)[:-1] == list(OPTIONS)
    assert list(inspect.signature(nki.jit).parameters) == [
        *("fn", "compile_config", "specialization_config", "kwargs")
    ]
    assert CompileConfig().nki_alloc_fallback is True
    assert CompileConfig().address_rotation is AddressRotation.AUTO
    assert CompileConfig() == CompileConfig(prefetch_auto=False)
    assert SpecializationConfig().allow_nested_config_override is False


FAULTS = {
    "CompileConfig(prefetch='yes'): there is no such option; legal: address_rotation, "
    "non_ssa_legalization, dead_code_elim, barrier_check, prefetch_auto, nki_alloc_fallback": (
        lambda: CompileConfig(prefetch="yes"),
        "did you mean prefetch_auto=?",
    ),
    "CompileConfig(dead_code_elim=1); legal: True or False": (
        lambda: CompileConfig(dead_code_elim=1),
        "pass one of them",
    ),
    "CompileConfig(nki_alloc_fallback=None); legal: True or False": (
        lambda: CompileConfig(nki_alloc_fallback=None),
        "pass one of them",
    ),
    "CompileConfig(address_rotation='DISABLE'); legal: a member of nki.compiler.AddressRotation": (
        lambda: CompileConfig(address_rotation="DISABLE"),
        "pass AddressRotation.DISABLE",
    ),
    "SpecializationConfig(x=1): there is no such option; legal: allow_nested_config_override": (
        lambda: SpecializationConfig(x=1),
        "leave it out",
    ),
    "nki.jit(nki_alloc_fallback=False): there is no such option; legal: compile_config, "
    "specialization_config": (
        lambda: nki.jit(double, nki_alloc_fallback=False),
        "pass it as compile_config=nki.compiler.CompileConfig(nki_alloc_fallback=...)",
    ),
    "nki.jit(compile_configs=1): there is no such option; legal: compile_config, "
    "specialization_config": (
        lambda: nki.jit(compile_configs=1),
        "did you mean compile_config=?",
    ),
    "nki.jit(compile_config={}); legal: a CompileConfig": (
        lambda: nki.jit(double, compile_config={}),
        "pass nki.compiler.CompileConfig(...)",
    ),
    "nki.jit(specialization_config=CompileConfig(address_rotation=<AddressRotation.AUTO: 'AUTO'>, "
    "non_ssa_legalization=None, dead_code_elim=None, barrier_check=None, prefetch_auto=False, "
    "nki_alloc_fallback=True)); legal: a SpecializationConfig": (
        lambda: nki.jit(specialization_config=CompileConfig()),
        "pass nki.compiler.SpecializationConfig(...)",
    ),
}


@pytest.mark.parametrize("message", FAULTS)
def test_unknown_options_and_values_are_refused_at_their_line(message):
    call, fix = FAULTS[message]
    with pytest.raises(BadInput) as caught:
        call()
    assert (
        caught.value.reason.replace("): legal", "): legal")
        == message.replace("): legal", "); legal")
        or caught.value.reason == message
    )
    assert caught.value.fix == fix
    assert caught.value.line.file == __file__


def test_options_of_older_versions_are_ignored():
    kernel = nki.jit(mode="simulation", debug_kernel=True, experimental_flags="x")(double)
    np.testing.assert_array_equal(kernel(X), 2 * X)


def full(x):
    """Three tensors that do not fit into SBUF together."""
    tiles = [nl.ndarray((128, 20000), dtype=nl.float32, buffer=nl.sbuf) for _ in range(3)]
    for tile in tiles:
        nisa.memset(dst=tile, value=0.0)
    for tile in tiles:
        nisa.tensor_tensor(dst=tiles[0], data1=tiles[0], data2=tile, op=nl.add)
    return x


def test_without_the_fallback_an_exceeded_sbuf_is_an_error():
    with pytest.warns(SpillWarning):
        nki.jit(full)(X)
    kernel = nki.jit(full, compile_config=CompileConfig(nki_alloc_fallback=False))
    with pytest.raises(OutOfMemory):
        kernel(X)
    with pytest.raises(OutOfMemory):
        trnsim.run(kernel, X)
    with pytest.raises(OutOfMemory):
        trnsim.run(kernel, X, ranks=1)


def outer_and_inner(outer, inner, override=None):
    options = {} if inner is None else {"compile_config": inner}
    called = nki.jit(double, **options)

    def calls(x):
        return called(x)

    options = {} if outer is None else {"compile_config": outer}
    if override is not None:
        options["specialization_config"] = SpecializationConfig(override)
    return nki.jit(calls, **options)


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        (None, None),
        (CompileConfig(barrier_check=True), None),
        (CompileConfig(barrier_check=True), CompileConfig(barrier_check=True)),
        (None, CompileConfig()),
    ],
)
def test_a_kernel_that_another_calls_is_inlined(outer, inner):
    np.testing.assert_array_equal(outer_and_inner(outer, inner)(X), 2 * X)


def test_configurations_that_differ_are_refused_or_warned_of():
    outer, inner = CompileConfig(barrier_check=True), CompileConfig(prefetch_auto=True)
    for override in (None, False):
        with pytest.raises(BadInput) as caught:
            outer_and_inner(outer, inner, override)(X)
        assert caught.value.reason == (
            "calls calls the kernel double, whose compile_config has barrier_check=the default "
            "where calls has True and prefetch_auto=True where calls has False; legal: equal "
            "configurations, as the kernel is inlined"
        )
        assert "SpecializationConfig(allow_nested_config_override=True)" in caught.value.fix
        assert caught.value.line.file == __file__
    with pytest.warns(NestedConfigWarning, match="it is inlined under that of calls"):
        result = outer_and_inner(outer, inner, override=True)(X)
    np.testing.assert_array_equal(result, 2 * X)


def test_a_configuration_is_of_version_07():
    for options in (
        {"compile_config": CompileConfig()},
        {"specialization_config": SpecializationConfig()},
    ):
        kernel = nki.jit(double, **options)
        trnsim.run(kernel, X, nki="0.7")
        (key,) = options
        message = rf"nki\.jit\({key}=\.\.\.\) under NKI 0\.6, where it does not exist yet"
        with pytest.raises(IllegalInstruction, match=message) as caught:
            trnsim.run(kernel, X, nki="0.6")
        assert caught.value.line == kernel.line


@pytest.mark.parametrize("name", ["AddressRotation", "CompileConfig", "SpecializationConfig"])
def test_the_classes_are_of_version_07(name):
    for version in VERSIONS.values():
        with pinned(version, "a test"):
            assert hasattr(nki.compiler, name) is (version.name == "0.7")
            assert (name in dir(nki.compiler)) is (version.name == "0.7")
