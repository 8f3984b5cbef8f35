# Runs a PostgreSQL in a directory of its own for as long as somebody holds the other end of its standard input.
# Arguments: the directory of PostgreSQL's programs, then lines for postgresql.conf.
# Standard input: "restart" stops the server at once and starts it again; the end of the input ends everything.
# Standard output: "ready DIRECTORY" after each start; anything else says why there is no server.

set -u
umask 077
programs=$1
shift
server=
directory=

# In immediate mode PostgreSQL itself kills what does not end within 5 s. A frozen server must be thawed to hear it.
stop() {
    if [ -n "$server" ]; then
        kill -QUIT "$server" 2>/dev/null
        kill -CONT "$server" 2>/dev/null
        wait "$server"
        server=
    fi
}

leave() {
    trap '' HUP INT PIPE TERM
    stop
    if [ -n "$directory" ]; then
        cd /
        rm -rf "$directory"
    fi
}

fail() {
    {
        echo "$1"
        tail -n 20 "$directory/log"
    } 2>/dev/null
    exit 1
}

start() {
    "$programs/postgres" -D "$directory/data" </dev/null >>"$directory/log" 2>&1 &
    server=$!
    deadline=$(($(date +%s) + 60))
    until "$programs/pg_isready" -q -t 1 -h "$directory"; do
        kill -0 "$server" 2>/dev/null || fail "PostgreSQL ended while it started:"
        [ "$(date +%s)" -lt "$deadline" ] || fail "PostgreSQL takes no connection a minute after its start:"
        sleep 0.05
    done
    echo "ready $directory" 2>/dev/null
}

# A pipe without a reader means that the starter died while it waited for an answer.
trap leave EXIT
trap 'exit 1' HUP INT PIPE TERM

# The path of the socket must fit into 107 bytes.
for base in "${TMPDIR:-/tmp}" /tmp /var/tmp; do
    [ "${#base}" -le 70 ] && directory=$(mktemp -d "$base/postgres.XXXXXX" 2>/dev/null) && break
done
[ -n "$directory" ] || fail "$(id -un) can make no directory with a short path in ${TMPDIR:-/tmp}, /tmp or /var/tmp"
cd "$directory" || fail "cannot enter $directory"

timeout 120 "$programs/initdb" -D "$directory/data" --username=bridge --auth=trust --encoding=UTF8 --locale=C --no-sync \
    </dev/null >"$directory/log" 2>&1 || fail "initdb failed:"
mv "$directory/log" "$directory/initdb"

# The directory keeps other users of the machine out. Other roles than ours are for tests of passwords.
cat >"$directory/data/pg_hba.conf" <<END
local all bridge trust
local replication bridge trust
local all all scram-sha-256
END
printf '%s\n' "listen_addresses = ''" "unix_socket_directories = '$directory'" "$@" >>"$directory/data/postgresql.conf"

start
while read -r order; do
    case $order in
        restart)
            stop
            start
            ;;
    esac
done
