"""A neuron-monitor inside the process of a tool that gets no reports through a pipe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from trnsim.errors import BadInput
from trnsim.instance.state import folder, hardware
from trnsim.instance.state.observers import announce
from trnsim.instance.state.pods import stored_pods
from trnsim.instance.state.reader import LISTEN_S, instance_of, read_all
from trnsim.tools.monitor.config import Config, all_groups
from trnsim.tools.monitor.reports import Monitor


def user_monitor(config: Config) -> Monitor:
    """A monitor of the user's programs; neuron-ls lists this process as a tool from now on.

    Raises:
        BadInput: the state folder cannot be used.
    """
    state, listen_s = folder.state_folder(), config.longest_s + LISTEN_S
    with suppress(BadInput):  # on a full disk it reports all the same
        announce(state)
    return Monitor(
        config,
        lambda: read_all(folder.state_folder(), listen_s),  # made again where it was removed
        instance_of,
        lambda devices: hardware.counters(hardware.injected_faults(state), devices),
        pods=lambda: stored_pods(state),
    )


def user_reports() -> Iterator[dict[str, Any]]:
    """Reports of all groups every second, for exporters without a pipe.

    The first report covers the programs' whole past, so that an exporter's counters miss nothing.

    Raises:
        BadInput: the state folder cannot be used.
    """
    return user_monitor(all_groups(period_s=1.0)).stream(is_whole=True)
