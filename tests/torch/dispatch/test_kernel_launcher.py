"""The launcher of kernels that NKI receives; what it launches is tested beside `launches`."""

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import nki
import nki.language as nl

from trnsim.nki.kernel import launchers
from trnsim.torch.dispatch import kernel_launcher


@nki.jit
def kept(x):
    return nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)


def test_nki_has_it_once():
    assert launchers.count(kernel_launcher.launch) == 1


def test_kernels_on_tensors_of_the_host_are_not_its():
    assert kernel_launcher.launch(kept, (torch.zeros(4, 4),), {}) is NotImplemented
