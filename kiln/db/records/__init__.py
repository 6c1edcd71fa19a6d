"""Records of the store, one module for each kind."""
