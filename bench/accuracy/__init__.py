"""Accuracy of the elementary functions, and the computation of their coefficients."""
