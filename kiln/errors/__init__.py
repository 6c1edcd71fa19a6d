"""Parts of all errors: advice, masking, and the errors of configuration."""
