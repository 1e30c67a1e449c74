"""Absent names: `hasattr` is False, a from-import is an ImportError, and both say what to write."""

import importlib
import inspect
from importlib.util import find_spec

import pytest

import trnsim
from trnsim.behaviours.chosen import pinned
from trnsim.errors import NotModelled
from trnsim.nki.language import legacy
from trnsim.nki.language_operators import ComposedFunction

REMOVED = [
    *(
        (module, name)
        for module in ("nki", "torch_neuronx.nki")
        for name in trnsim.nki._REPLACEMENTS
    ),
    *(("nki.language", name) for name in legacy.REPLACEMENTS),
    *(("nki_cpu_simulator.nki.language", name) for name in ("arange", "mgrid")),
    *(("nki.compiler", name) for name in ("kernel_builder", "enable_stack_allocator", "sbuf")),
    *(("neuronxcc.nki", name) for name in ("benchmark", "language", "isa", "jit", "baremetal")),
]
ALIASES = [
    *("nki", "nki.language", "nki.isa", "nki.collectives", "nki.compiler", "nki.typing"),
    *("neuronxcc", "neuronxcc.nki", "neuronxcc.nki.typing", "neuronxcc.starfish.support.dtype"),
    *("neuron_dtypes", "nki_cpu_simulator", "torch_neuronx", "torch_neuron"),
]


def from_import(module, name):
    """What ``from module import name`` gives."""
    scope = {}
    exec(f"from {module} import {name}", scope)  # noqa: S102  the statement is what is tested
    return scope[name]


@pytest.fixture(params=REMOVED, ids=".".join)
def removed(request):
    module, name = request.param
    if module.startswith("torch"):
        pytest.importorskip("torch")
    return importlib.import_module(module), module, name


def test_hasattr_is_false_and_the_attributes_error_says_what_to_write(removed):
    module, _, name = removed
    assert not hasattr(module, name)
    assert getattr(module, name, None) is None
    with pytest.raises(AttributeError) as caught:
        getattr(module, name)
    assert isinstance(caught.value, NotModelled)
    assert f".{name} " in caught.value.reason
    assert caught.value.fix in str(caught.value)
    assert caught.value.source in str(caught.value)
    assert caught.value.line.file == __file__


def test_a_from_import_is_an_import_error_with_the_same_words(removed):
    module, path, name = removed
    with pytest.raises(NotModelled) as attribute:
        getattr(module, name)
    with pytest.raises(ImportError) as caught:
        from_import(path, name)
    assert not isinstance(caught.value, ModuleNotFoundError)
    assert isinstance(caught.value, NotModelled)
    error = caught.value
    assert (error.reason, error.fix) == (attribute.value.reason, attribute.value.fix)
    assert f"fix: {error.fix}" in str(error)
    assert path.endswith(error.name)


def test_a_from_import_names_the_users_line():
    with pytest.raises(ImportError) as caught:
        from neuronxcc.nki import benchmark  # noqa: F401, PLC0415
    line = inspect.currentframe().f_lineno - 1
    assert caught.value.line == (__file__, line)
    assert str(caught.value) == (
        "neuronxcc.nki.benchmark belongs to NKI 0.1, the older generation, which is not emulated "
        "yet\n"
        "  fix: migrate the kernel to `import nki` (0.2 and later)\n"
        "  source: nki/migration/index.rst\n"
        f"  at {__file__}:{line}"
    )


def test_the_other_way_of_a_program_is_taken():
    try:
        from neuronxcc.nki import benchmark  # noqa: PLC0415
    except ImportError:
        benchmark = None
    try:
        from nki.language import arange  # noqa: PLC0415
    except (AttributeError, ImportError):
        arange = range
    import nki.language as nl  # noqa: PLC0415

    try:
        grid = nl.mgrid
    except AttributeError:
        grid = None
    assert (benchmark, arange, grid) == (None, range, None)


@pytest.mark.parametrize("module", ALIASES)
def test_a_name_that_no_module_ever_had_is_pythons_own_error(module):
    if module.startswith("torch"):
        pytest.importorskip("torch")
    found = importlib.import_module(module)
    assert not hasattr(found, "__nothing__")
    with pytest.raises(ImportError, match="cannot import name '__nothing__'"):
        from_import(module, "__nothing__")
    assert not hasattr(found, "nothing")
    with pytest.raises(ImportError, match=r"nothing"):
        from_import(module, "nothing")


def test_looking_for_a_submodule_is_left_to_python():
    import nki  # noqa: PLC0415

    assert find_spec("nki.benchmark") is None
    assert find_spec("neuronxcc.nki.language") is find_spec("neuronxcc.nki.compiler") is None
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'nki\.benchmark'"):
        importlib.import_module("nki.benchmark")
    assert from_import("nki", "typing") is nki.typing
    assert from_import("neuronxcc.nki", "typing").tensor is nki.typing.tensor


def test_a_misspelt_name_is_told_the_near_one_in_both_ways():
    with pytest.raises(AttributeError, match="did you mean 'tensor_scalar'"):
        trnsim.nki.isa.tensor_scalr  # noqa: B018
    with pytest.raises(ImportError, match=r"from 'nki\.isa'; did you mean 'tensor_scalar'"):
        exec("from trnsim.nki.isa import tensor_scalr", {})  # noqa: S102
    with pytest.raises(ImportError, match="did you mean 'softmax'"):
        exec("from trnsim.nki.language import sofmax", {})  # noqa: S102


def test_the_module_says_its_version_and_has_its_compiler():
    assert trnsim.nki.__version__ == "0.7.0"
    with pinned("0.4", "a test"):
        assert trnsim.nki.__version__ == "0.4.0"
    assert trnsim.nki.compiler.__name__ == "trnsim.nki.compiler"


def test_functions_of_tiles_have_their_signatures():
    for name, function in vars(trnsim.nki.language).items():
        if isinstance(function, ComposedFunction):
            kinds = {p.kind for p in inspect.signature(function).parameters.values()}
            assert kinds == {inspect.Parameter.POSITIONAL_OR_KEYWORD}, name
    assert list(inspect.signature(trnsim.nki.language.where).parameters) == [
        *("condition", "x", "y", "dtype")
    ]
