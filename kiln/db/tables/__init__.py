"""Tables of the database: schema, rows, codec, migrations."""
