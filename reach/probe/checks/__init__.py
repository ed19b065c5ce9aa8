"""The questions that a probe puts to a harness, one file for each kind."""
