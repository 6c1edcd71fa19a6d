"""Programs for the people who work on kiln; nothing here is installed."""
