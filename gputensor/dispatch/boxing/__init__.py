"""Calls of operators whose arguments still have to be converted by the schema."""
