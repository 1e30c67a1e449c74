"""Plugins: patches of other packages that ask for a device by name and do not find this one."""
