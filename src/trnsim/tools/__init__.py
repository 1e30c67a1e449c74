"""AWS's tools of an instance, over the state of emulated programs.

`neuron_ls` lists devices and processes, `monitor` streams and exports what they do, `top` shows it
on a screen, `nccom` times collectives, `neuronx_cc` and `neuron_parallel_compile` compile graphs.
Output has the layout of AWS's pages; its content is emulated.
"""
