"""Harnesses: what reach knows of each, and how one is started in a session."""
