"""The language for declaring instructions: operands, fields, operators, engines."""
