"""The facade for callers: plan, apply and inspect the clusters of a site."""
