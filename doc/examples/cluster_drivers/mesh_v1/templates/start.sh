#!/bin/sh
# Starts the agent of the image. It joins the nodes that answer at the meeting point.
MEET={{ meeting_point | shell }}

exec mesh-agent --config /etc/mesh.json --join "$MEET:{{ port }}"
