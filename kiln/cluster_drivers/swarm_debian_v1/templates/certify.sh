#!/bin/sh
# Creates the certificate of this node's engine: for its name and, on a manager, which people
# reach by its address, for its current addresses. The authority next to it can sign for nothing
# else, and only server certificates.
set -eu
umask 077
cd /etc/kiln-swarm
authority=$(openssl x509 -in authority.pem -noout -subject -nameopt sep_multiline,sname \
    -ext nameConstraints)
names="DNS:$(echo "$authority" | sed -n 's/^ *CN=//p')"
if ! echo "$authority" | grep -q Excluded; then
    for address in $(hostname -I); do
        names="$names,IP:$address"
    done
fi
key='-newkey ed25519 -nodes -keyout'
[ ! -s key.pem ] || key='-key'
openssl req -new $key key.pem -subj "/CN=engine" -out request.pem
cat >extensions.cnf <<EXTENSIONS
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = $names
EXTENSIONS
serial=$(od -An -N15 -tx1 /dev/urandom | tr -d ' \n')
openssl x509 -req -in request.pem -CA authority.pem -CAkey authority.pem \
    -set_serial "0x00$serial" -days 7300 -extfile extensions.cnf -out leaf.pem
{ cat leaf.pem && sed -n '/BEGIN CERTIFICATE/,/END CERTIFICATE/p' authority.pem; } >cert.pem.new
mv cert.pem.new cert.pem
rm -f leaf.pem request.pem extensions.cnf
