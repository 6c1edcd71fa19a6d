"""Commands on clusters, nodes and templates."""
