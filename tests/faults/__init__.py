"""Faults, injected for real: what they are, what every call's end is judged by, and the tests and the table of them."""
