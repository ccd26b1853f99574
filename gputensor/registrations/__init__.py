"""Registrations of built-in operators: the rows of every family, which are generated, and the
functions that they call."""
