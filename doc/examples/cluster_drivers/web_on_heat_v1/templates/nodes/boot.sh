#!/bin/sh
# Heat fills in both values.
printf 'theme %s\n' '$THEME' > /etc/web.conf
printf '%s' '$PASSWORD' > /etc/web.password
chmod 600 /etc/web.password
