"""Members of a chain other than pointwise operators: copies, random numbers, reductions, rows."""
