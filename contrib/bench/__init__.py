"""Measures archivefs beside other tools that mount archives, and beside the same files unpacked.

Started as ``python -m contrib.bench`` from the top of the project, or by ``make bench``.
"""
