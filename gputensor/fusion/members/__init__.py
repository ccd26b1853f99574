"""What joins a chain beside pointwise operators: copies, random numbers, reductions, rows."""
