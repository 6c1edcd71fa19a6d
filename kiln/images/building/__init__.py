"""One build of an image: sandbox, staging, progress, failures."""
