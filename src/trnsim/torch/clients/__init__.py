"""Plugins: patches of packages that look devices up by name and do not know this one."""
