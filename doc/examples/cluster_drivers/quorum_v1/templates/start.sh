#!/bin/sh
# Starts the agent of the image, which waits until the driver lets it join.
exec quorum-agent --config /etc/quorum.json
