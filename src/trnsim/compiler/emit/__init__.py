"""Instructions of the exchanges of a program where several cores or ranks share a graph."""
