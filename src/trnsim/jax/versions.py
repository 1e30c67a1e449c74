"""The JAX versions with which this room was tested.

The plugin uses private names of JAX (see `trnsim.jax.private`), which change without notice, so
untested versions do not get the platform.
"""

from __future__ import annotations

from typing import Final

import jax

from trnsim.errors import NotModelled

FIRST_TESTED: Final = (0, 8)
FIRST_UNTESTED: Final = (0, 11)
REQUIREMENT: Final = "jax>=0.8,<0.11"


def check(version: str = jax.__version__) -> None:
    """Refuse a JAX outside the tested range.

    Raises:
        NotModelled: for another version, with the tested range and the command to install it.
    """
    major, minor = version.split(".")[:2]
    if not FIRST_TESTED <= (int(major), int(minor)) < FIRST_UNTESTED:
        raise NotModelled(
            f"JAX {version} is installed; the neuron device was tested with {REQUIREMENT} only",
            fix=f"pip install '{REQUIREMENT}'",
        )
