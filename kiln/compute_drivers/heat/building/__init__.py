"""What a build asks of Heat: names, tags, user data and the template; pure."""
