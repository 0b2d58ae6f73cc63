"""Requests in order, devices shared fairly: queue, admission, deadlines, batches, the device loop.

Knows costs, names and futures; never a model, a body, HTTP or torch. Standard library only.
Times are seconds of the caller's monotonic clock.
"""
