"""Options of a script's header that sbatch does not have, or whose value is no number.

sbatch accepts the beginning of an option's name if no other option begins so. Plugins of a cluster
have options of their own; options of pyxis are listed. Sources: Slurm 25.05, sbatch(1), OPTIONS;
pyxis, README.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, Final

from trnsim.jobs.field_fault import FieldFault
from trnsim.jobs.spec import is_template

SOURCE: Final = "Slurm 25.05, sbatch(1), OPTIONS"

_WHOLE_NAMES: Final = (
    "core-spec cores-per-socket cpus-per-gpu cpus-per-task mincpus ntasks "
    "ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket segment sockets-per-node "
    "thread-spec threads-per-core"
)
_WHOLE: Final = frozenset(_WHOLE_NAMES.split())
"""Options whose value is a number."""
_OTHER_NAMES: Final = (
    "account acctg-freq array batch bb bbf begin chdir cluster-constraint clusters comment "
    "consolidate-segments constraint container container-id contiguous cpu-freq deadline "
    "delay-boot dependency distribution error exclude exclusive export export-file extra "
    "extra-node-info get-user-env gid gpu-bind gpu-freq gpus gpus-per-node "
    "gpus-per-socket gpus-per-task gres gres-flags "
    "help hint hold ignore-pbs immediate input job-name kill-on-invalid-dep licenses mail-type "
    "mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu network nice no-allocate no-kill "
    "no-requeue nodefile nodelist nodes oom-kill-step open-mode output overcommit oversubscribe "
    "parsable partition power prefer priority profile propagate qos quiet reboot requeue "
    "reservation resv-ports signal spread-job spread-segments stepmgr switches test-only time "
    "time-min tmp tres-bind tres-per-task uid usage use-min-nodes verbose version wait "
    "wait-all-nodes wckey wrap container-image container-mounts container-workdir container-name "
    "container-save container-mount-home no-container-mount-home container-remap-root "
    "no-container-remap-root container-entrypoint no-container-entrypoint container-entrypoint-log "
    "container-env container-writable container-readonly"
)
_OTHER: Final = frozenset(_OTHER_NAMES.split())
_LEGAL: Final = _WHOLE | _OTHER
_NUMBER: Final = re.compile(r"\d{1,15}", re.ASCII)
_LEAST_SIMILARITY: Final = 0.75
"""Minimum similarity (difflib) of a misspelled option to an option that is suggested."""


def option_faults(key: str, options: Any) -> Iterator[FieldFault]:
    """The faults of the options of a component of a script.

    Args:
        key: the key of the component in the script's content.
        options: its options by long name.
    """
    if not isinstance(options, dict):
        return
    for name, value in options.items():
        if is_template(name):
            continue
        completions = [legal for legal in _LEGAL if legal.startswith(name)]
        option = name if name in _LEGAL else completions[0] if len(completions) == 1 else ""
        if option in _WHOLE:
            is_number = isinstance(value, str) and _NUMBER.fullmatch(value)
            is_templated = isinstance(value, str) and is_template(value)
            if not is_number and not is_templated:
                value_text = f"is {value}" if isinstance(value, str) else "has no value"
                reason = f"--{name} {value_text}; legal: a whole number"
                yield FieldFault((key, name), "field-type", reason, f"--{option}=N")
        if option:
            continue
        reason = f"sbatch has no option {_with_dashes(name)}"
        near_names = sorted(completions)[:2] or get_close_matches(
            name[:100], sorted(_LEGAL), 1, _LEAST_SIMILARITY
        )
        if near_names and len(name) > 1:
            fix = f"perhaps {' or '.join(map(_with_dashes, near_names))}"
            yield FieldFault((key, name), "misspelled-field", reason, fix)
        else:
            fix = "take it out, unless a plugin of the cluster has it"
            yield FieldFault((key, name), "unknown-field", reason, fix)


def _with_dashes(name: str) -> str:
    return f"--{name}" if len(name) > 1 else f"-{name}"
