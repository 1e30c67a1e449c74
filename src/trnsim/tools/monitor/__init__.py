"""``neuron-monitor``: metrics of emulated programs and their host as a stream of JSON reports.

`config` names the groups of metrics and their periods, `groups` and `host` measure a group,
`reports` keeps the time. Names, layout and units are those of aws-neuron-sdk
tools/neuron-sys-tools/neuron-monitor-user-guide.rst.
"""
