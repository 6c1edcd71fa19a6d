"""Amphorae as servers of OpenStack Nova."""
