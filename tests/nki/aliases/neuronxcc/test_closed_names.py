"""Names of neuronxcc that AWS's libraries import and call only on request."""

import importlib
import sys

import pytest

from trnsim.errors import NotModelled
from trnsim.nki.aliases.neuronxcc import closed_names

KERNELS = "neuronxcc.nki.kernels"


@pytest.fixture(autouse=True)
def nothing_is_loaded():
    """Modules that a library has loaded are there for everybody; here they are loaded anew."""
    package = importlib.import_module("neuronxcc.nki")

    def forget():
        for name in list(sys.modules):
            if (
                name.startswith("neuronxcc.nki.")
                and name.split(".")[2] in closed_names.OLDER_MODULES
            ):
                del sys.modules[name]
        for name in closed_names.OLDER_MODULES:
            vars(package).pop(name, None)

    forget()
    yield
    forget()


def imported(statement, importer="program"):
    """The last name that a statement binds in a module of some name."""
    namespace = {"__name__": importer}
    exec(statement, namespace)  # noqa: S102  a library is told by its name
    return list(namespace.values())[-1]


@pytest.mark.parametrize(
    "statement",
    [
        "from neuronxcc.nki.kernels import flash_fwd",
        "from neuronxcc.nki.kernels.attention import attention_isa_kernel",
        "from neuronxcc.nki._private_kernels.mlp import mlp_isa_kernel",
        "from neuronxcc.nki._pre_prod_kernels import NormType",
        "from neuronxcc.nki import kernels as name; name = name.any_kernel",
        "import neuronxcc.nki._pre_prod_kernels.ring_attention as name; name = name.forward",
    ],
)
def test_closed_kernels_are_imported_by_everybody(statement):
    name = imported(statement)
    assert isinstance(name, closed_names.ClosedName)
    assert repr(name) == f"<{name.public}, which is not modelled>"


def test_a_call_of_a_closed_kernel_is_refused_with_its_name():
    kernel = imported(f"from {KERNELS}.attention import attention_isa_kernel")
    for call in (kernel, kernel[2], kernel.variant):
        with pytest.raises(NotModelled, match=r"(?s)attention_isa_kernel\S* was called.*fix: turn"):
            call(1, scale=2)


def test_a_closed_kernel_is_named_hashed_and_compared_as_a_function():
    kernel = imported(f"from {KERNELS} import flash_fwd")
    assert kernel.__name__ == kernel.__qualname__ == "flash_fwd"
    assert kernel.__doc__ == f"`{KERNELS}.flash_fwd`, whose call is refused."
    assert kernel == imported(f"from {KERNELS} import flash_fwd")
    assert kernel != imported(f"from {KERNELS} import flash_attn_bwd")
    assert len({kernel, imported(f"from {KERNELS} import flash_fwd")}) == 1
    assert not hasattr(kernel, "__wrapped__")
    assert not hasattr(importlib.import_module(KERNELS), "__all__")


def test_settings_of_closed_kernels_are_kept():
    settings = imported(f"from {KERNELS}.attention import FlashConfig")
    assert settings(lse_dtype="bfloat16").lse_dtype == "bfloat16"


@pytest.mark.parametrize("package", ["_pre_prod_kernels", "_private_kernels"])
def test_the_ranks_of_a_ring_are_pairs_of_each_group(package):
    config = imported(f"from neuronxcc.nki.{package}.collectives import CollectivesConfig")
    pairs = config([[0, 2, 4], [1], (3, 5)]).rank_src_tgt_pairs
    assert pairs[0] == pairs[2] == pairs[4] == [[0, 2], [2, 4], [4, 0]]
    assert pairs[1] == [[1, 1]]
    assert pairs[5] == [[3, 5], [5, 3]]
    assert config([]).rank_src_tgt_pairs == {}


@pytest.mark.parametrize(
    "statement",
    [
        "import neuronxcc.nki.language as nl",
        "from neuronxcc.nki.language import par_dim",
        "import neuronxcc.nki.isa as nisa",
        "from neuronxcc.nki.isa import activation",
        "import neuronxcc.nki.compiler as ncc",
        "from neuronxcc.nki.compiler import sbuf",
    ],
)
def test_the_older_generation_is_imported_by_awss_libraries_alone(statement):
    with pytest.raises(ImportError, match=r"(?s)NKI 0\.1.*migrate the kernel"):
        imported(statement)
    closed = (closed_names.ClosedName, closed_names.ClosedModule)
    assert isinstance(imported(statement, "neuronx_distributed.kernels"), closed)
    assert isinstance(imported(statement, "neuronx_distributed_inference.a.b"), closed)


def test_a_librarys_kernel_of_the_older_generation_is_refused_when_it_is_called():
    source = (
        "from neuronxcc.nki import jit\n"
        "import neuronxcc.nki.language as nl\n"
        "@jit\ndef plain(a=nl.float32): pass\n"
        "@jit(mode='torchxla')\ndef tuned(): pass\n"
        "import functools\nfilled = jit(functools.partial(print, 1))"
    )
    namespace = {"__name__": "neuronx_distributed.kernels"}
    exec(source, namespace)  # noqa: S102  likewise
    for name, title in {"plain": "plain", "tuned": "tuned", "filled": "partial"}.items():
        with pytest.raises(NotModelled, match=rf"(?s)jit {title} was called: .*NKI 0\.1.*migrate"):
            namespace[name](1)
    with pytest.raises(NotModelled, match=r"language\.nc was called"):
        namespace["nl"].nc(2)


def test_sizes_of_a_launch_are_those_of_libraries():
    statement = "from neuronxcc.nki.compiler.backends.neuron.dimensions import VNC"
    with pytest.raises(ImportError):
        imported(statement)
    size = imported(statement, "neuronx_distributed.modules.moe.blockwise")
    with pytest.raises(NotModelled, match="VNC was called"):
        size(2)
