"""Benchmarks and long-running tests: speed, memory, service throughput and crash safety.

``make speed``, ``make load`` and ``make soak`` run them; the numbers are written to ``benchmarks/out``.
"""
