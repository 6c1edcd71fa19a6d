"""Test tools for driver and controller authors; kiln itself never imports them."""
