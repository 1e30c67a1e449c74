"""Legal forms: operations without a kernel, expressed by operations that have one."""
