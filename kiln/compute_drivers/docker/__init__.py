"""The Docker driver: amphorae as containers of Docker Engine, or of Podman."""
