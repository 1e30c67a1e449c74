"""The pods of a node by core and device, from kubelet's list of what containers hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from trnsim.cluster.kubernetes.node_devices import NEURONCORE, ContainerHolding, NodeDevices
from trnsim.errors import BadInput
from trnsim.instance.state.pods import PodTable, PodUse


def pod_table(
    devices: NodeDevices, holdings: Iterable[ContainerHolding], period_s: float
) -> PodTable:
    """The table of all pods.

    A device has one pod: if several pods hold cores of it, the pod with the lowest core.

    Args:
        devices: the devices of the node.
        holdings: devices and cores that containers hold.
        period_s: seconds since the previous table.
    """
    cores: dict[int, ContainerHolding] = {}
    names: dict[tuple[int, str, str], list[str]] = {}
    for holding in holdings:
        try:
            numbers = devices.cores(holding.resource, holding.ids)
        except BadInput as error:  # ids of a device plugin of another instance
            return PodTable(period_s, error=error.reason)
        for core in numbers:
            cores.setdefault(core, holding)
            containers = names.setdefault((core, holding.namespace, holding.pod), [])
            if holding.container not in containers:
                containers.append(holding.container)
    use_by_core = {
        core: PodUse(
            holding.pod, holding.namespace, tuple(names[core, holding.namespace, holding.pod])
        )
        for core, holding in sorted(cores.items())
    }
    return PodTable(
        period_s,
        {str(core): use for core, use in use_by_core.items()},
        _by_device(devices, use_by_core),
    )


def _by_device(devices: NodeDevices, use_by_core: Mapping[int, PodUse]) -> dict[str, PodUse]:
    by_device: dict[int, PodUse] = {}
    for core, use in use_by_core.items():
        (device,) = devices.devices(NEURONCORE, [str(core)])
        holder = by_device.setdefault(device, use)
        if (holder.pod_name, holder.namespace) == (use.pod_name, use.namespace):
            further_containers = [
                name for name in use.container_name if name not in holder.container_name
            ]
            by_device[device] = PodUse(
                holder.pod_name, holder.namespace, (*holder.container_name, *further_containers)
            )
    return {str(device): use for device, use in by_device.items()}
