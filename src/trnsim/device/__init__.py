"""What a device did: calls in order, their time, the HBM they held, and the reports of that.

A framework tells this room which calls ran (`recording`), which tensors live (`memory`) and where
in the program that was; the room knows neither its tensors nor its operators. It promises device
time, reports and errors that are the same for every framework. It does not import one.
"""
