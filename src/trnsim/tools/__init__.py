"""AWS's tools of an instance, over the state of emulated programs.

`neuron_ls` lists devices and processes, `monitor` streams what they do, `prometheus` and `otlp`
export it. Output has the layout of AWS's pages; its content is emulated.
"""
