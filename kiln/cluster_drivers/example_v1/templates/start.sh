#!/bin/sh
# Rendered for {{ node.id }}. Assign values to variables, then use the variables anywhere.
PORT={{ port | shell }}
HOST={{ host | shell }}

mkdir -p /srv/example
printf '%s shows /etc/kiln-example.json\n' "$HOST" > /srv/example/index.html
cd /srv/example && exec python3 -m http.server "$PORT"
