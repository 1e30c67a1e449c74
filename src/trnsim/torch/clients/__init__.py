"""Other packages that ask for a device by name, and what they need to find this one."""
