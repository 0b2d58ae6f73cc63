"""What is on the wire: requests in, decisions and errors out, in three dialects.

Torch-free and HTTP-framework-free: bytes to frozen values (`types.py`) and back.
"""
