"""The fault matrix: every fault many times, and a soak."""
