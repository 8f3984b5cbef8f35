# Makes two authorities, a server's certificate by the first of them, and a password, in a new directory.
# Argument: the server's name. Standard output: the directory.

set -eu
umask 077
name=$1
directory=$(mktemp -d "${TMPDIR:-/tmp}/certificates.XXXXXX")
trap '[ $? -eq 0 ] || rm -rf "$directory"' EXIT
cd "$directory"

authority() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key" -out "$1.crt" -days 2 \
        -subj "/CN=$1" -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign 2>>log || { cat log >&2; exit 1; }
}
authority authority
authority stranger
openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout server.key -out server.csr -subj "/CN=$name" \
    2>>log || { cat log >&2; exit 1; }
printf '%s\n' "subjectAltName=DNS:$name" basicConstraints=CA:FALSE extendedKeyUsage=serverAuth >extensions
openssl x509 -req -in server.csr -CA authority.crt -CAkey authority.key -set_serial 1 -days 2 -extfile extensions \
    -out server.crt 2>>log || { cat log >&2; exit 1; }
# Every user of this machine reaches the address; the socket is in a private directory.
openssl rand -hex 16 | tr -d '\n' >password
cat >hba <<END
local all bridge trust
hostssl all bridge 127.0.0.0/8 scram-sha-256
END
echo "$directory"
