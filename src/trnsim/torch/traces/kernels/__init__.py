"""NKI kernels of a stored program: their instructions as data, and kernels that issue these.

`stored_kernel` is the form, `typed_json` its JSON, `recorder` makes it of a kernel's run, and
`issuer` makes a kernel of it. See the design note 0061.
"""
