"""Records of results: the environment, the file, tables, plots, comparison of two records."""
