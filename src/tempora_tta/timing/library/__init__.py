"""Latency profiles that ship with Tempora, a JSON file each: `--clock library:NAME`.

They are made by `benchmarks/library.py` from measurements in `benchmarks/results`, or contributed: `tempora profile
--share` writes a file that needs only a line in `names.PROFILES`.
"""
