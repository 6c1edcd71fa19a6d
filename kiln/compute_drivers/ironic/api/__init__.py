"""Requests to Ironic and its neighbours, and what their answers mean."""
