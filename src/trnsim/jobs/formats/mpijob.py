"""MPIJobs of Kubeflow: a launcher that runs mpirun, and workers with slots for its processes.

Source: github.com/kubeflow/mpi-operator pkg/apis/kubeflow/v2beta1/types.go.
"""

from __future__ import annotations

from typing import Final

from trnsim.jobs.formats.kubeflow import KubeflowKind, kubeflow_format

FORMAT: Final = kubeflow_format(
    KubeflowKind(
        format="mpijob",
        kind="MPIJob",
        version="v2beta1",
        specs="mpiReplicaSpecs",
        head="Launcher",
        workers="Worker",
        is_head_needed=True,
        processes_field="slotsPerWorker",
        is_processes_field_text=False,
    )
)
