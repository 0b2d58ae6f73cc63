"""The subcommands of `systone`: one module each, found by its file name.

A module's docstring opens with "`systone NAME`: what it does" (the line of `systone --help`); it
offers `configure(parser)` and `run(args) -> int` (the exit status) and imports what is heavy inside
`run`. Modules whose name starts with `_` are parts of commands.
"""
