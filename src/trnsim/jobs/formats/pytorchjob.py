"""PyTorchJobs of Kubeflow's training operator.

Source: github.com/kubeflow/training-operator v1.9.0 pkg/apis/kubeflow.org/v1/pytorch_types.go: the
container is called "pytorch"; roles are Master, of one pod, and Worker.
"""

from __future__ import annotations

from typing import Final

from trnsim.jobs.formats.kubeflow import KubeflowKind, kubeflow_format

FORMAT: Final = kubeflow_format(
    KubeflowKind(
        format="pytorchjob",
        kind="PyTorchJob",
        version="v1",
        specs="pytorchReplicaSpecs",
        head="Master",
        workers="Worker",
        is_head_needed=False,
        processes_field="nprocPerNode",
        is_processes_field_text=True,
        container="pytorch",
    )
)
