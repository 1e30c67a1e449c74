"""What a program issues where several cores or ranks share a graph."""
