"""kiln inside other people's controllers: one package for each of them."""
