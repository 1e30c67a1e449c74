"""The PyTorch versions with which `trnsim.torch` was tested.

The device uses private names of PyTorch (see `trnsim.torch.pytorch`), which change without notice,
so untested versions are refused.
"""

from __future__ import annotations

from typing import Final

import torch

from trnsim.errors import NotModelled

FIRST_TESTED: Final = (2, 13)
FIRST_UNTESTED: Final = (2, 14)
REQUIREMENT: Final = "torch>=2.13,<2.14"


def check(version: str = torch.__version__) -> None:
    """Refuse a PyTorch outside the tested range.

    Raises:
        NotModelled: with the installed version, the tested range and the command to install.
    """
    major, minor = version.split(".")[:2]
    if not FIRST_TESTED <= (int(major), int(minor)) < FIRST_UNTESTED:
        raise NotModelled(
            f"PyTorch {version} is installed; the neuron device was tested with {REQUIREMENT} only",
            fix=f"pip install '{REQUIREMENT}'",
        )
