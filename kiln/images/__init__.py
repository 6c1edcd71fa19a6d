"""Node images: recipes, and the root file systems that are built of them."""
