"""Tools for authors of compute drivers: errors, wording, redaction, user data."""
