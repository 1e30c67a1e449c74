"""Migration of a file from one version of NKI to a later one.

    file      the text, its syntax tree, and what the text says of its tensors
    traces    where a file relies on a row of the table of behaviours
    report    the version of each kernel, and a statement for each trace that a version changes
    rewrites  the edits of a row, where they are mechanical
    writing   the file for the later version; what is not mechanical becomes a comment
    trial     both files on the same random inputs

All rules about versions come from `behaviours.table`.
"""
