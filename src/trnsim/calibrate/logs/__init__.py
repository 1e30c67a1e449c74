"""Logs of training runs, load tests and tools, as figures of a common form.

| format | content |
|---|---|
| vllm | the JSON of ``vllm bench serve --save-result`` |
| guidellm | the JSON report of ``guidellm benchmark`` |
| torchtitan | the lines that begin with ``step:`` in its log |
| nemo | the lines of NeMo's progress with ``train_step_timing in s`` |
| csv | a table with step, step_s and loss, or with requests |
"""

from trnsim.calibrate.logs.measured import RunLog
from trnsim.calibrate.logs.measurement import MeasuredLog, measurements
from trnsim.calibrate.logs.reading import FORMATS, of_json, read

__all__ = ["FORMATS", "MeasuredLog", "RunLog", "measurements", "of_json", "read"]
