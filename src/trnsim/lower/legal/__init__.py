"""Legal forms: operations without a kernel of their own, as operations that have one."""
