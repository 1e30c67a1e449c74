"""The language in which an instruction is declared: operands, fields, operators, engines."""
