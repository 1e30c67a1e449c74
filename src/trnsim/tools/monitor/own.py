"""neuron-monitor over the user's own state folder, for the tools that measure by themselves."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from trnsim.errors import BadInput
from trnsim.instance.state import folder, hardware
from trnsim.instance.state.observers import announce
from trnsim.instance.state.reader import LISTEN_S, instance_of, read_all
from trnsim.tools.monitor.config import Config, everything
from trnsim.tools.monitor.reports import Monitor

if TYPE_CHECKING:
    from collections.abc import Iterator


def own_monitor(config: Config) -> Monitor:
    """A monitor of what the user's programs do; neuron-ls lists this process as a tool from now on.

    Raises:
        BadInput: the state folder cannot be used.
    """
    state, listen_s = folder.opened(), config.longest_s + LISTEN_S
    with suppress(BadInput):  # on a full disk it reports all the same
        announce(state)
    return Monitor(
        config,
        lambda: read_all(folder.opened(), listen_s),  # made again where it was removed
        instance_of,
        lambda devices: hardware.counters(hardware.injected(state), devices),
    )


def own_reports() -> Iterator[dict[str, Any]]:
    """Reports of everything every second, for exporters that nothing is piped into.

    The first counts what programs did before it too: an exporter's counters are theirs.

    Raises:
        BadInput: the state folder cannot be used.
    """
    return own_monitor(everything(period_s=1.0)).stream(is_whole=True)
