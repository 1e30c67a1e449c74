"""`torch_xla` over the device: its names, and the spelling "xla".

The room gives programs written for `torch_xla` the device that stands: their tensors are tensors of
`trnsim.torch`, whose device is spelled "xla" from the first `import torch_xla` on. Operators run at
once, where the real package defers them until a cut. A step ends where the real package would cut
(`sync`, `mark_step`, a loader's edge), so values are the same; counts of compilations and
executions are not kept, and are refused by name.

`by_name` has the modules as programs import them. A name of `torch_xla` that is not there raises an
error that is an AttributeError or an ImportError too (`absent_names`).
"""
