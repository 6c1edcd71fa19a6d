#!/bin/sh
# Starts the engine with its configuration, and installs it first where the image lacks it.
set -eu
install={{ install | shell }}
if ! command -v dockerd >/dev/null || ! command -v openssl >/dev/null; then
    if [ "$install" != true ]; then
        echo 'kiln: the image has no Docker, and parameter install is false' >&2
        exit 1
    fi
    apt-get update
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        -o Dpkg::Options::=--force-confold docker.io iptables openssl ca-certificates
fi
systemctl daemon-reload
systemctl enable docker.service
systemctl restart docker.service
