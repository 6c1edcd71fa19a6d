"""What kiln ships for testing drivers and controllers; kiln itself never imports it."""
