"""Why a public case fails or warns: the document behind it, found by name and message."""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """What some cases have in common.

    Attributes:
        suite: the beginning of the suite's name.
        case: a pattern in the name of the case.
        message: a pattern in what the case says.
        why: one sentence.
        source: the document.
    """

    suite: str
    case: str
    message: str
    why: str
    source: str

    def explains(self, suite, case, message):
        """Whether it is the reason why `case` of `suite` says `message`."""
        return (
            suite.startswith(self.suite)
            and re.search(self.case, case) is not None
            and re.search(self.message, message) is not None
        )


def reason_of(reasons, suite, case, message):
    """The first of `reasons` that explains it, or None."""
    return next((r for r in reasons if r.explains(suite, case, message)), None)


FAILURES = (
    Reason(
        "D5",
        r"test_quantize_mx_hw.*float8_e4m3fn",
        "Validation failed",
        "The golden values have the scale of the OCP spec, which `nisa.quantize_mx` had "
        "until NKI 0.4; the scale is twice as large since NKI 0.5.",
        "aws-neuron-sdk release-notes/components/nki.rst, NKI 0.5.0; nki.isa.quantize_mx",
    ),
    Reason(
        "D5",
        r"test_mlp_tkg.*(fn_x4.*384|384.*fn_x4)",
        "nc_matmul_mx reads .* some elements of which no instruction has written",
        "`nc_matmul_mx` contracts over 128 partitions, 32 of which no instruction has written.",
        "aws-neuron-sdk nki/guides/nki_simulator.rst, Uninitialized Memory Detection",
    ),
    Reason(
        "D6",
        r"trnsparse::",
        "gathers the gradient dO by block column",
        "The package's host code gathers the output's gradient by block column where its kernel "
        "wants the block row. With that line corrected from outside the same case passes: see "
        "`test_a_kernel_that_its_host_misleads_passes_with_the_right_gradient`.",
        "trnsparse trnsparse/nki/kernels.py, docstring of the kernel: `dP = dO_m @ V_ki.T`",
    ),
    Reason(
        "D7",
        r"gemm",
        r"tensor_copy\(dtype=\.\.\.\), which NKI 0\.2 removed",
        "The kernel passes `nisa.tensor_copy(dtype=...)`, a keyword of `neuronxcc.nki` alone.",
        "aws-neuron-sdk nki/api/nki/isa, signature of tensor_copy",
    ),
)

WARNINGS = (
    Reason(
        "D5",
        r"",
        "while the other writes the same bytes",
        "Both cores compute the output, or its overlapping part, and write the same bytes to it, "
        "with no barrier.",
        "aws-neuron-sdk nki.isa.core_barrier; nki/get-started/about/lnc.rst",
    ),
    Reason(
        "D5",
        r"test_cascaded_max_utils",
        "RaceWarning",
        "Both cores zero the whole output in shared HBM, then each stores its rows, with no "
        "barrier between.",
        "aws-neuron-sdk nki.isa.core_barrier; nki/get-started/about/lnc.rst",
    ),
    Reason(
        "D6",
        r"",
        "SimulatorOnlyWarning",
        "AWS's simulator, for which these tests are written, broadcasts operands, divides, and "
        "takes an operand in HBM; its compiler does not.",
        "aws-neuron-sdk release-notes/components/nki.rst, NKI 0.4.0, Known issues",
    ),
    Reason(
        "D5",
        r"",
        "SpillWarning",
        "Live tensors exceed SBUF; the compiler moves some to HBM and back.",
        "aws-neuron-sdk nki/get-started/about/memory-hierarchy-overview.rst, note on capacity",
    ),
)

MARKED_BY_THEIR_AUTHORS = (
    "trnsparse::TestAttnBwdSimulator::test_bwd_dq_parity_kmax2",
    "trnsparse::TestAttnKTilingSimulator::test_backward_head_dim_256",
    "test_non_trivial_threshold_parity",
)
"""Cases of D6 that carry an xfail mark for AWS's simulator; they run here as if they had none."""
