"""Selection of a cluster driver: request, matching, refusals, pins."""
