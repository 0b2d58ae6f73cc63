"""The HTTP side: routes, bodies, headers, keys, metrics, start and stop.

Imports the engine's interface and the protocol; never a model family, a device or torch.
"""
