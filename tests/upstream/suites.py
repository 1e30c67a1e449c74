"""The public suites: where each lies, what it is, and how its own tests are started."""

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
D5_FILES = (
    "core/attention/test_attention_cte.py",
    "core/cumsum/test_cumsum.py",
    "core/embeddings/test_rope.py",
    "core/embeddings/test_rope_hf.py",
    "core/max/test_cascaded_max.py",
    "core/max/test_cascaded_max_utils.py",
    "core/mlp/test_mlp_tkg.py",
    "core/output_projection/test_output_proj_tkg.py",
    "core/subkernels/test_find_nonzero_indices.py",
    "core/subkernels/test_indexed_flatten.py",
    "core/subkernels/test_layernorm_tkg.py",
    "core/subkernels/test_rmsnorm_tkg.py",
    "core/utils/test_cross_partition_copy.py",
    "core/utils/test_quantize_to_mx.py",
    "core/utils/test_tensor_view.py",
    "core/utils/test_tp_broadcast.py",
    "experimental/conv/test_depthwise_conv1d.py",
)
D5_FOLDER = "test/integration/nkilib"


@dataclass(frozen=True)
class Suite:
    """A public suite.

    Attributes:
        name: its group, and which part of it.
        clones: the folders of its repositories.
        what: which of their tests.
        arguments: pytest's, to run them.
        cwd: the clone in which its harness wants to be started, or ours.
        environment: variables besides PYTHONPATH.
        paths: where Python finds modules, besides trnsim and ours.
    """

    name: str
    clones: tuple[str, ...]
    what: str
    arguments: tuple[str, ...]
    cwd: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    paths: tuple[str, ...] = ()

    def variables(self, folder):
        """The environment of a run with the clones in `folder`."""
        ours = (str(ROOT / "src"), str(HERE))
        return {
            **os.environ,
            "TRNSIM_UPSTREAM": str(folder),
            "OMP_NUM_THREADS": "1",  # torch and BLAS would fight for the cores
            "PYTHONPATH": os.pathsep.join(ours + self.paths),
            **self.environment,
        }


def nki_library(name, what, marker, *arguments, files=D5_FILES, environment=()):
    """A part of nki-library (tag 2.29), through its own harness, with further variables.

    NEURON_PYTHONHASHSEED seeds its sweeps (test/utils/ranged_test_harness.py), which are drawn
    anew for each run otherwise.
    """
    return Suite(
        name,
        ("nki-library",),
        what,
        (
            *("-p", "nki_library_plugin", "-n", "0", "--test-mode", "simulation", "-m", marker),
            *(f"--output-directory={tempfile.mkdtemp()}", "--force-local-cleanup"),
            *arguments,
            *(f"{D5_FOLDER}/{file}" for file in files),
        ),
        cwd="nki-library",
        environment={"NEURON_PYTHONHASHSEED": "0", **dict(environment)},
        paths=("src", "src/nkilib_src", "."),
    )


TRN3 = ("--platform-target", "trn3")
SUITES = (
    Suite("D1", ("aws-neuron-sdk",), "nki/examples", (str(HERE / "test_neuron_examples.py"),)),
    nki_library("D5-trn2-fast", "16 kernels on trn2, `-m fast`", "fast"),
    nki_library("D5-trn3-fast", "the same on trn3", "fast", *TRN3),
    nki_library("D5-trn2-sweeps", "their other cases on trn2", "not fast"),
    nki_library("D5-trn3-sweeps", "the same on trn3", "not fast", *TRN3),
    Suite(
        "D6",
        ("trnfft", "trnsparse"),
        "tests/test_nki_sim.py",
        (str(HERE / "test_trnsci.py"),),
    ),
    Suite("D7", ("autocomp",), "trn-tutorial-nki2", (str(HERE / "test_autocomp.py"),)),
    Suite(
        "D8",
        ("nki-library",),
        "collectives between ranks, at ddbca35",
        (
            *("-p", "nki_library_plugin", "-n", "0", "--test-mode", "simulation"),
            *(f"--output-directory={tempfile.mkdtemp()}", "--force-local-cleanup"),
            "test/integration/nkilib/experimental/collectives/test_collectives.py",
        ),
        cwd="nki-library",
        paths=("src", "src/nkilib_src", "."),
    ),
)

V1_FILES = (
    "core/cumsum/test_cumsum.py",
    "core/embeddings/test_rope.py",
    "core/max/test_cascaded_max.py",
    "core/output_projection/test_output_proj_tkg.py",
)


def pinned(name, clone, what, version, chosen):
    """Kernels of test_pinned.py under their own version of NKI."""
    return Suite(
        name,
        (clone,),
        what,
        (str(HERE / "test_pinned.py"), "-k", chosen),
        environment={"TRNSIM_NKI": version},
    )


PINNED = (
    nki_library(
        "D5-mx",
        "quantization to MX on trn3, under NKI 0.4",
        "fast",
        *TRN3,
        files=("core/utils/test_quantize_to_mx.py",),
        environment={"TRNSIM_NKI": "0.4"},
    ),
    Suite(
        "V1",
        ("nki-library-2.28",),
        "4 kernels of tag 2.28, `-m fast`, under NKI 0.2",
        (
            *("-p", "nki_library_plugin", "-n", "0", "--test-mode", "simulation", "-m", "fast"),
            *(f"--output-directory={tempfile.mkdtemp()}", "--force-local-cleanup"),
            *(f"{D5_FOLDER}/{file}" for file in V1_FILES),
        ),
        cwd="nki-library-2.28",
        environment={"NEURON_PYTHONHASHSEED": "0", "TRNSIM_NKI": "0.2"},
        paths=("src", "src/nkilib_src", "."),
    ),
    pinned("V2", "nki-library-2.27", "attention_cte, tag 2.27, under NKI 0.2", "0.2", "attention"),
    nki_library(
        "V3",
        "dynamic_elementwise_add, `-m fast`, under NKI 0.3",
        "fast",
        files=("experimental/dynamic_shapes/test_dynamic_elementwise_add.py",),
        environment={"TRNSIM_NKI": "0.3"},
    ),
    pinned("V7-0.2", "nkipy", "kernels of NKIPy's tests, under NKI 0.2", "0.2", "beta2 or beta_2"),
    pinned("V7-0.4", "nkipy", "newer ones, and its example, under 0.4", "0.4", "beta3 or example"),
)
"""Suites of a version of NKI, which are run by name and have no row on the page."""

NOT_YET = (
    ("D2", "aws-neuron-sdk", "nki/test"),
    ("D3", "nki-samples", "src/nki_samples/tutorials"),
    ("D4", "nki-samples", "test/unit at 8370e11"),
    ("D7", "autocomp", "trn-tutorial-nki1"),
)
"""Groups of the older generation: their kernels import `neuronxcc.nki` (docs/limits.md)."""
