"""The executable that a harness finds as `bash`: it forwards commands to the target and runs nothing itself.

Standard library only, and only its cheap parts: the built-in and `_`-named C modules stand in for `os`, `socket`,
`signal` and `subprocess`, each of which would cost the start more than everything else here together.
"""
