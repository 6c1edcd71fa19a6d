"""Node images: recipes, and the root file systems built from them."""
