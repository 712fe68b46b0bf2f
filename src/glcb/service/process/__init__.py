"""What every process of the service needs: threads, its clock, logs, counters and compiled kernels."""
