#!/bin/sh
# Runs as root in a Debian that has nothing but Debian, Codex and the packages in /check: installs, works, upgrades while
# messages wait, purges. A scripted model answers from outside.
set -eu

step() { echo "== $*"; }
fail() { echo "FAILED: $*"; cat /check/daemon.log; exit 1; }
is() { [ "$2" = "$3" ] || fail "$1: expected '$3', got '$2'"; }
home=/var/lib/codex-bridge
# Becomes the command, so that a signal to it in the background reaches the daemon.
become() {
    user=$1
    shift
    exec setpriv --reuid="$user" --regid="$user" --init-groups env "$@"
}
service="HOME=$home CODEX_HOME=$home/codex"
as() { (become codex-bridge $service codex-bridge --state-dir "$home/state" "$@"); }
# At most a minute, and more on a slow machine.
until_done() {
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ "$tries" -lt 240 ] || fail "waited too long for: $*"
        sleep 0.5
    done
}
ready() { grep -q 'ready codex=' /check/daemon.log; }
start() {
    : >/check/daemon.log
    become codex-bridge $service ${1:-} codex-bridge --state-dir "$home/state" \
        --config /etc/codex-bridge/codex-bridge.toml run >/check/daemon.log 2>&1 &
    daemon=$!
    until_done ready
}
stop() {
    kill -TERM "$daemon"
    wait "$daemon" || fail "the daemon did not stop as told"
}
answered() { as show "$1" | grep -q "$2"; }
# Everything but what any package manager leaves behind.
files() {
    find / -xdev \( -path /proc -o -path /dev -o -path /sys -o -path /tmp -o -path /run -o -path /check \
        -o -path /var/lib/dpkg -o -path /var/cache -o -path /var/log -o -name '*-' \) -prune -o -print | sort
}

chmod 1777 /tmp
files >/check/before
step "install"
dpkg -i /check/first.deb
getent passwd codex-bridge >/dev/null || fail "no user"
is "the state's owner and mode" "$(stat -c '%U %G %a' "$home/state")" "codex-bridge codex-bridge 700"
is "the configuration's owner" "$(stat -c %U /etc/codex-bridge/codex-bridge.toml)" root
ls /usr/share/man/man1/codex-bridge-send.1.gz >/dev/null
install -o codex-bridge -g codex-bridge -m 0600 /check/codex.toml "$home/codex/config.toml"

step "doctor"
as doctor || fail doctor

step "a message"
start
is "the answer" "$(as send 'echo:hello from outside')" "hello from outside"
is "a command in the sandbox" "$(as send -c box 'shell:echo made > made && cat made ;; echo:done')" done

step "upgrade while messages wait"
echo '# changed by the operator' >>/etc/codex-bridge/codex-bridge.toml
first=$(as send -c up --no-wait --quiet 'sleep:6 ;; echo:first')
second=$(as send -c up --no-wait --quiet 'echo:second')
dpkg -i /check/next.deb
grep -q '# changed by the operator' /etc/codex-bridge/codex-bridge.toml || fail "the configuration was replaced"
stop
start "$(cat /check/next-env)"
until_done answered "$first" first
until_done answered "$second" second
as status | head -5
# A debug build was told of another migration, and keeps a copy from before it.
ls "$home"/state/ledger.db.before-v* 2>/dev/null || echo "no migration: a release build knows none to come"
stop

step "purge"
dpkg --purge codex-bridge
getent passwd codex-bridge >/dev/null && fail "the user is still there"
files >/check/after
diff /check/before /check/after || fail "the purge left something"

step "tarball, as an ordinary user"
useradd --create-home person
tar -xzf /check/tarball.tar.gz -C /home/person --strip-components=1
chown -R person: /home/person
install -d -o person -g person -m 0700 /home/person/.codex
install -o person -g person -m 0600 /check/codex.toml /home/person/.codex/config.toml
mine() { become person HOME=/home/person /home/person/bin/codex-bridge "$@"; }
(mine init --yes) || fail "init"
(mine init --yes) && fail "init overwrote"
: >/check/daemon.log
mine run >/check/daemon.log 2>&1 &
daemon=$!
until_done ready
is "the answer" "$(mine send 'echo:from a tarball')" "from a tarball"
stop
echo "== all passed"
