"""A job: roles of equal replicas, with the resources, environment and command of each.

The same model represents a SageMaker training job, an ECS task, a Batch job, a pod or a set of
pods, a Slurm script and a ParallelCluster. None and "" are the values of fields that a spec does
not state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple

from trnsim.jobs.parallelism import Parallelism, whole_number

LNC_VARIABLES: Final = ("NEURON_LOGICAL_NC_CONFIG", "NEURON_RT_VIRTUAL_CORE_SIZE")
"""Variables that set the NeuronCores of a logical core (LNC); both mean the same.

Source: aws-neuron-sdk neuron-runtime/configuration-guide.rst.
"""


class JobKind(Enum):
    """The use of the instances: a run that ends, a server, or a cluster's nodes."""

    TRAINING = "training"
    SERVING = "serving"
    CLUSTER = "cluster"


class KeptField(NamedTuple):
    """A field of a spec that no field of `Job` holds.

    Attributes:
        keys: the names and indexes that lead to the field in its document.
        value: text, a number, True, False, None, or an empty list or mapping.
    """

    keys: tuple[str | int, ...]
    value: Any

    @property
    def name(self) -> str:
        """The name in words: ``spec.containers[0].tty``."""
        text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in self.keys)
        return text.lstrip(".")


@dataclass(frozen=True, kw_only=True)
class Role:
    """Equal replicas: whole instances, or pods and containers on a part of one.

    Attributes:
        replicas: number of replicas; the largest one of a role that scales.
        least_replicas: the smallest number of replicas of a role that scales; None for others.
        instance: EC2 type, such as "trn2.48xlarge".
        is_exclusive: whether a replica has its instance for itself.
        processes: ranks that a replica starts.
        devices: Neuron devices of a replica.
        device_indexes: indexes of the devices, if the spec names them (`/dev/neuron3`).
        cores: NeuronCores of a replica, requested as a resource of their own.
        gpus: GPUs of a replica.
        pod_requests: fields (devices, cores, gpus) and numbers that a replica's pod requests in
            all, where other containers of it request more.
        efa: EFA interfaces of a replica.
        vcpus: vCPUs of a replica.
        memory_bytes: host memory of a replica.
        hugepages_bytes: huge pages of a replica.
        shm_bytes: size of /dev/shm.
        capabilities: Linux capabilities that are added, without "CAP_".
        is_memlock_unlimited: whether the limit of locked memory (`ulimit -l`) is lifted.
        is_privileged: whether the container has all capabilities and devices.
        environment: names and values of variables, in the spec's order.
        command: words of the program and its arguments.
        entry_words: the number of first words of `command` that replace the image's entry point; 0
            where the image's own entry point stays, or where there is none.
    """

    name: str = "main"
    replicas: int | None = 1
    least_replicas: int | None = None
    instance: str = ""
    is_exclusive: bool = False
    processes: int | None = None
    devices: int | None = None
    device_indexes: tuple[int, ...] = ()
    cores: int | None = None
    gpus: int | None = None
    pod_requests: tuple[tuple[str, int], ...] = ()
    efa: int | None = None
    vcpus: float | None = None
    memory_bytes: int | None = None
    hugepages_bytes: int | None = None
    shm_bytes: int | None = None
    capabilities: tuple[str, ...] = ()
    is_memlock_unlimited: bool = False
    is_privileged: bool = False
    image: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    command: tuple[str, ...] = ()
    entry_words: int = 0

    def requested(self, field: str) -> int | None:
        """The number of a replica, of all containers: `field` is devices, cores or gpus."""
        own_count: int | None = getattr(self, field)
        return dict(self.pod_requests).get(field, own_count)

    def variable(self, name: str) -> str | None:
        """Value of an environment variable, the last one if there are several."""
        return dict(self.environment).get(name)

    @property
    def lnc(self) -> int | None:
        """NeuronCores of a logical core that the environment sets."""
        for name in LNC_VARIABLES:
            cores = whole_number(self.variable(name))
            if cores is not None:
                return cores
        return None


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job of a scheduler or a service.

    Attributes:
        kind: use of the job's instances.
        region: AWS region, such as "us-east-2".
        purchase: kind of purchase, such as "spot" or "capacity_block".
        time_limit_s: seconds after which the scheduler ends the job.
        copies: number of equal jobs that run independently (an array job).
        model: name of a model, or path of its config.json.
        config: sizes of the model that the spec states, by keys of a config.json.
        parallelism: layout by the spec's own fields; `parallelism_of` adds the command's options.
        kept_fields: fields of the spec that no field here holds; a writer of the same format writes
            them back.
    """

    name: str = ""
    kind: JobKind = JobKind.TRAINING
    roles: tuple[Role, ...] = ()
    region: str = ""
    purchase: str = ""
    time_limit_s: float | None = None
    copies: int = 1
    model: str = ""
    config: tuple[tuple[str, Any], ...] = ()
    parallelism: Parallelism = field(default_factory=Parallelism)
    kept_fields: tuple[KeptField, ...] = ()

    @property
    def replicas(self) -> int | None:
        """Replicas of all roles; None if a role does not state its number."""
        counts = [role.replicas for role in self.roles]
        return None if None in counts else sum(count for count in counts if count is not None)
