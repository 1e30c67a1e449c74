"""NKI kernels of a stored program: their instructions as data, and kernels that issue these.

`stored_kernel` defines the stored form, `typed_json` its JSON; `recorder` writes it from a run of a
kernel, and `issuer` runs it as a kernel. See the design note 0061.
"""
