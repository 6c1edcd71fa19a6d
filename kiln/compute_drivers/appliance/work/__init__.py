"""Work on machines: commands, probes and the background jobs that run them."""
