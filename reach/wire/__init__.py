"""What travels over a session's socket, as bytes and as models. No input or output here but on a given socket."""
