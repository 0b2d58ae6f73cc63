"""`systone bench`: latency and throughput of a System One server, in evidence anyone can replay.

workloads.py names the requests, plan.py the order they are sent in, client_process.py sends them,
figures.py computes every figure from the raw records and audit.py does so again from the folder.
The client speaks HTTP only and knows no engine; times are nanoseconds, shown as milliseconds.
"""
