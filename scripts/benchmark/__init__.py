"""What scripts/bench runs: reach measured against the system's ssh, on one machine, in one run."""
