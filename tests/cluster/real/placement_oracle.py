"""Legal sets typed from AWS's figures, and the placements that they allow: no code of trnsim's."""

from daemons import Failed

NEURON = "aws.amazon.com/neuron"
DEVICES_OF = {
    "inf1.24xlarge": (16, 4),
    "inf2.48xlarge": (12, 2),
    "trn1.32xlarge": (16, 2),
    "trn2.48xlarge": (16, 4),
}
"""Devices, and cores of each as a plugin advertises them (two physical cores each on the last)."""
INSTANCES = tuple(DEVICES_OF)
_ROWS = [range(4), range(4, 8), range(8, 12), range(12, 16)]
_DRAWN = [*(range(n, n + 1) for n in range(16)), *_ROWS, range(8), range(8, 16), range(16)]
_LINES = ("inf1.24xlarge", "inf2.48xlarge")


class Oracle:
    """What may be placed on nodes of one instance type."""

    def __init__(self, instance):
        self.instance = instance
        self.devices, self.per_device = DEVICES_OF[instance]
        self._known = {}

    def all_cores(self):
        return set(range(self.devices * self.per_device))

    def sets(self, resource, count):
        """The legal sets of a demand, as sets of cores."""
        key = resource, count
        if key not in self._known:
            self._known[key] = list(self._found(resource == NEURON, count))
        return self._known[key]

    def _found(self, is_devices, count):
        total = self.devices * self.per_device
        size = count * (self.per_device if is_devices else 1)
        step = self.per_device if is_devices else 1
        for first in range(0, total - size + 1, step):
            cores = set(range(first, first + size))
            if self.instance in _LINES or self._is_drawn(cores):
                yield cores

    def _is_drawn(self, cores):
        """True for all cores of a drawn set of devices, or cores within one device."""
        devices = {core // self.per_device for core in cores}
        if len(devices) == 1:
            return True
        is_whole = len(cores) == len(devices) * self.per_device
        return is_whole and devices in [set(each) for each in _DRAWN]

    def fits(self, resource, count, free):
        return any(cores <= free for cores in self.sets(resource, count))

    def checked(self, name, pod, resource, count, free):
        """The cores that a bound pod holds; fails where these are illegal or another pod's."""
        text = (pod["metadata"].get("annotations") or {}).get("NEURON_CORES", "")
        cores = {int(number) for number in text.split(",") if number}
        node = pod["spec"]["nodeName"]
        if cores not in self.sets(resource, count):
            raise Failed(f"{name} on {node}: {resource} {count} placed on cores {text!r}")
        if not cores <= free:
            raise Failed(f"{name} on {node}: cores {sorted(cores - free)} are another pod's")
        return cores
