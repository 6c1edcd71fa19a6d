"""The steps; the names of their files say their order."""
