"""The instruction set reference: a page per instruction, with typical instances and prices."""
