#!/bin/sh
# Filled in for {{ node.id }}. Values go into variables, and from there anywhere.
PORT={{ port | shell }}
HOST={{ host | shell }}

mkdir -p /srv/example
printf '%s shows /etc/kiln-example.json\n' "$HOST" > /srv/example/index.html
cd /srv/example && exec python3 -m http.server "$PORT"
