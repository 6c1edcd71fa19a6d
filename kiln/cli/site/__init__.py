"""Commands on a site: conductor, database, hooks."""
