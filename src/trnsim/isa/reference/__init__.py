"""The reference of the instruction set: a page each, with typical instances and their price."""
