"""The subcommands of `systone`: one module each, found by its file name.

A module offers `SUMMARY` (one line for `systone --help`), `configure(parser)` and
`run(args) -> int` (the exit status). It imports what is heavy inside `run`.
"""
