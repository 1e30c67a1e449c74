"""The processes that AWS's variables name, as a cluster that JAX detects.

With it `jax.distributed.initialize()` needs no argument: under `trnsim launch`, or wherever
NEURON_PJRT_PROCESSES_NUM_DEVICES, NEURON_PJRT_PROCESS_INDEX and NEURON_RT_ROOT_COMM_ID are set. JAX
imports this module while it is imported itself (`_trnsim_finder`), so nothing of it is used here
but the class of clusters.

Source: aws-neuron-sdk frameworks/jax/api-reference-guide/neuron-envvars.rst;
neuron-runtime/guides/nrt-developer-guide.rst, NEURON_RT_ROOT_COMM_ID.
"""

from __future__ import annotations

import os
from typing import Any, Final

from jax._src import clusters

_COUNTS: Final = "NEURON_PJRT_PROCESSES_NUM_DEVICES"
_INDEX: Final = "NEURON_PJRT_PROCESS_INDEX"
_ROOT: Final = "NEURON_RT_ROOT_COMM_ID"
_LAUNCHED: Final = "TRNSIM_RESTART"
"""Set by `trnsim launch`, within which no other cluster counts, such as one of a batch system."""
_base: Final[Any] = clusters.ClusterEnv


class NeuronCluster(_base):  # type: ignore[misc]
    """The cluster of processes that AWS's variables describe."""

    name: str = "neuron"

    @classmethod
    def is_env_present(cls) -> bool:
        """True if the variables give the number of processes, this one's number, and an address."""
        return all(os.environ.get(name) for name in (_COUNTS, _INDEX, _ROOT))

    @classmethod
    def get_coordinator_address(
        cls, timeout_secs: int | None = None, override_coordinator_port: str | None = None
    ) -> str:
        """The address at which the processes meet."""
        del timeout_secs
        host, _, port = os.environ[_ROOT].rpartition(":")
        return f"{host}:{override_coordinator_port or port}"

    @classmethod
    def get_process_count(cls) -> int:
        """The number of processes: the variable has one number of devices for each."""
        return len(os.environ[_COUNTS].split(","))

    @classmethod
    def get_process_id(cls) -> int:
        """The number of this process."""
        return int(os.environ[_INDEX])

    @classmethod
    def get_local_process_id(cls) -> int | None:
        """None: the devices of a process are those that NEURON_RT_VISIBLE_CORES names."""
        return None


if os.environ.get(_LAUNCHED):
    _base._cluster_types.insert(0, _base._cluster_types.pop())  # noqa: SLF001  JAX has no other way
