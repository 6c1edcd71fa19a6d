"""Templates of node user data: definition, language, quoting, facts."""
