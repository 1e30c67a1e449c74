"""AWS's tools of an instance, over the state of emulated programs.

`neuron_ls` lists devices and processes, `monitor` streams what they do, `prometheus` and `otlp`
export it. What a tool prints is laid out as AWS's pages show it; what it says is emulated.
"""
