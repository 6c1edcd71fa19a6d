"""What commands print: columns, progress, proposals."""
