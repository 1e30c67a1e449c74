"""A language server: answers of commands on a file of kernels, beside its lines in an editor.

marks     an answer of `trnsim check` as marks at lines, and times beside lines
hover     an answer of `trnsim explain` about the instruction below the cursor
server    both over the Language Server Protocol
"""
