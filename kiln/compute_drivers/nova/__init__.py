"""OpenStack Nova compute driver: amphorae as servers of one project."""
