"""`torch_neuronx.experimental.profiler`: the calls of a part of a program, with their time.

AWS's profiler writes files for TensorBoard; this profiler writes the report of the device's calls
into the same folder.

Source: aws-neuron-sdk frameworks/torch/torch-neuronx, PyTorch NeuronX Profiling API.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

from trnsim.device.call_log import Recording
from trnsim.device.device_core import target
from trnsim.device.program_line import program_line
from trnsim.device.step_report import step_report
from trnsim.errors import BadInput
from trnsim.torch.call_recording import recording

_TYPES: Final = ("operator", "trace")
_SOURCE: Final = "aws-neuron-sdk, PyTorch NeuronX Profiling API"


class profile:  # noqa: N801  AWS's name
    """A context whose calls on the device are recorded and written as a report.

    Attributes:
        recording: the recorded calls, once it has started.
    """

    def __init__(
        self,
        port: int = 9012,
        ms_duration: int = 60000,
        neuron_tensorboard_plugin_dir: str = "logs/plugins/neuron",
        profile_type: str = "operator",
        auto_start: bool = True,
        delete_working: bool = True,
        traced_only: bool = False,
        **options: Any,
    ) -> None:
        """A profile whose report is written to `neuron_tensorboard_plugin_dir`.

        The whole context is recorded, whatever `ms_duration` is, and there is no server at `port`.

        Raises:
            BadInput: for another `profile_type` than "operator" and "trace".
        """
        del port, ms_duration, delete_working, traced_only, options
        if profile_type not in _TYPES:
            raise BadInput(
                f"profiler.profile(profile_type={profile_type!r}); legal: {', '.join(_TYPES)}",
                fix="profile_type='operator'",
                source=_SOURCE,
                line=program_line(),
            )
        self.recording: Recording | None = None
        self._folder = Path(neuron_tensorboard_plugin_dir)
        self._is_started_at_once = auto_start
        self._stack = ExitStack()

    def start(self) -> None:
        """Begin to record; a second call does nothing."""
        if self.recording is None:
            self.recording = self._stack.enter_context(recording())

    def stop(self) -> None:
        """End the recording, and write the report."""
        self._stack.close()
        if self.recording is not None and self.recording.events:
            step_report(self.recording, target().name).write(self._folder)

    def __enter__(self) -> Self:
        if self._is_started_at_once:
            self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
