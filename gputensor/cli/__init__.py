"""The command `gputensor`: one module per subcommand, imported only when the subcommand runs."""
