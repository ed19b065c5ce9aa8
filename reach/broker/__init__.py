"""The broker: the process that holds a session's connections and runs the commands that its shims send."""
