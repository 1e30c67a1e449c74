"""The processes that the Neuron environment variables name, as a cluster that JAX detects.

With it `jax.distributed.initialize()` needs no argument: under `trnsim launch`, or wherever
NEURON_PJRT_PROCESSES_NUM_DEVICES, NEURON_PJRT_PROCESS_INDEX and NEURON_RT_ROOT_COMM_ID are set.
This module is imported in the middle of the import of JAX (`_trnsim_finder`), so it uses nothing of
JAX but the base class `ClusterEnv`.

Source: aws-neuron-sdk frameworks/jax/api-reference-guide/neuron-envvars.rst;
neuron-runtime/guides/nrt-developer-guide.rst, NEURON_RT_ROOT_COMM_ID.
"""

from __future__ import annotations

import os
from typing import Any, Final

from jax._src import clusters

from trnsim.errors import BadInput

_DEVICE_COUNTS: Final = "NEURON_PJRT_PROCESSES_NUM_DEVICES"
_PROCESS_INDEX: Final = "NEURON_PJRT_PROCESS_INDEX"
_ROOT_ADDRESS: Final = "NEURON_RT_ROOT_COMM_ID"
_LAST_PORT: Final = (1 << 16) - 1
_LAUNCH_VARIABLE: Final = "TRNSIM_RESTART"
"""Set by `trnsim launch`, under which this cluster precedes any other, such as a batch system's."""
_base: Final[Any] = clusters.ClusterEnv


class NeuronCluster(_base):  # type: ignore[misc]
    """The cluster of processes that the Neuron environment variables describe.

    `ClusterEnv` registers each subclass; JAX takes the first whose environment is present.
    """

    name: str = "neuron"

    @classmethod
    def is_env_present(cls) -> bool:
        """True if the variables give the number of processes, a number of this one, an address."""
        return all(os.environ.get(name) for name in (_DEVICE_COUNTS, _PROCESS_INDEX, _ROOT_ADDRESS))

    @classmethod
    def get_coordinator_address(
        cls, timeout_secs: int | None = None, override_coordinator_port: str | None = None
    ) -> str:
        """The address at which the processes meet.

        Raises:
            BadInput: for an address without a port, or a port that no address has.
        """
        del timeout_secs
        host, _, port = os.environ[_ROOT_ADDRESS].rpartition(":")
        if not host or not port.isdecimal() or not 1 <= int(port) <= _LAST_PORT:
            raise BadInput(
                f"{_ROOT_ADDRESS}={os.environ[_ROOT_ADDRESS]!r}; legal: an address and a port from "
                f"1 to {_LAST_PORT}",
                fix=f"{_ROOT_ADDRESS}=10.0.0.1:62182",
            )
        return f"{host}:{override_coordinator_port or port}"

    @classmethod
    def get_process_count(cls) -> int:
        """The number of processes: the variable has one number of devices for each.

        Raises:
            BadInput: for a variable that is no list of numbers, or has none for this process.
        """
        from trnsim.instance.cores import process_cores  # noqa: PLC0415  JAX is being imported

        return len(process_cores())

    @classmethod
    def get_process_id(cls) -> int:
        """The number of this process.

        Raises:
            BadInput: for a variable that is no number.
        """
        from trnsim.instance.cores import process_index  # noqa: PLC0415  JAX is being imported

        return process_index()

    @classmethod
    def get_local_process_id(cls) -> int | None:
        """None: the devices of a process are the cores that NEURON_RT_VISIBLE_CORES names."""
        return None


if os.environ.get(_LAUNCH_VARIABLE):  # move the class above, registered last, to the head
    _base._cluster_types.insert(0, _base._cluster_types.pop())  # noqa: SLF001  JAX has no other way
