"""The real parts that tests run against: sshd's of their own, login accounts, a proxy as the network."""
