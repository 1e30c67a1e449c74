"""``neuron-monitor``: what emulated programs and their host do, as a stream of JSON reports.

`config` says which groups are measured how often, `groups` and `host` measure one, `reports` keeps
the time. Names, layout and units are those of aws-neuron-sdk
tools/neuron-sys-tools/neuron-monitor-user-guide.rst.
"""
