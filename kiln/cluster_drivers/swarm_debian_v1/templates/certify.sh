#!/bin/sh
# Creates the certificate of this node's engine: for its name and, on a manager, which people
# reach by its address, for its current addresses. The authority next to it can sign for nothing
# else, and only server certificates.
set -eu
umask 077
cd /etc/kiln-swarm
name=$(openssl x509 -in authority.pem -noout -subject -nameopt sep_multiline,sname |
    sed -n 's/^ *CN=//p')
names="DNS:$name"
if ! openssl x509 -in authority.pem -noout -ext nameConstraints | grep -q Excluded; then
    for address in $(hostname -I); do
        names="$names,IP:$address"
    done
fi
[ -s key.pem ] || openssl genpkey -algorithm ed25519 -out key.pem
cat >extensions.cnf <<EXTENSIONS
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = $names
EXTENSIONS
openssl req -new -key key.pem -subj "/CN=engine" -out request.pem
openssl x509 -req -in request.pem -CA authority.pem -CAkey authority.pem \
    -set_serial "0x00$(openssl rand -hex 15)" -days 7300 -extfile extensions.cnf -out leaf.pem
{ cat leaf.pem && openssl x509 -in authority.pem; } >cert.pem.new
mv cert.pem.new cert.pem
rm -f leaf.pem request.pem extensions.cnf
