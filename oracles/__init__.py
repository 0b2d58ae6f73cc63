"""Official implementations run on the same checkpoints as the engine, to write golden files.

Independent of `systone` (only `refresh` draws its synthetic checkpoints) and never imported by it.
"""
