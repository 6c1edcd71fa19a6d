"""Programs that run inside the cloud's own virtual environment; kiln imports none."""
