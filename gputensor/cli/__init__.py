"""The command `gputensor`: one module a subcommand, imported only when it is run."""
