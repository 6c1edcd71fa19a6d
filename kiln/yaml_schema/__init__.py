"""The YAML framework of all files: reader, types, problems with their places."""
