#!/usr/bin/env bash
# Unpacks the packages of Debian that debian.txt names, and what they need, as far as it is not installed, into DIR.
#
# Nothing is installed: no service runs, no file of the system changes, and nobody needs to be root. The lists of
# packages are those of the system, or, where these are missing or too old, lists of its own in DIR/.apt.
# Usage: debian.sh DIR
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
dir=$1
shopt -s nullglob
mkdir -p "$dir/.apt/lists/partial" "$dir/.apt/cache/archives/partial"

apt() { # apt LISTS ARGUMENT...: apt-get with the package lists in LISTS, and all that it writes in DIR/.apt
    local lists=$1
    shift
    apt-get -qq -o Dir::State="$dir/.apt" -o Dir::State::lists="$lists" -o Dir::State::status=/var/lib/dpkg/status \
        -o Dir::Cache="$dir/.apt/cache" -o Debug::NoLocking=1 -o APT::Sandbox::User="$(id -un)" "$@"
}

download() { # download PACKAGE: it and what it needs that is not installed
    local fetch=(--yes --no-install-recommends --download-only install "$1")
    apt /var/lib/apt/lists "${fetch[@]}" >/dev/null 2>&1 && return
    if [ ! -f "$dir/.apt/updated" ]; then
        apt "$dir/.apt/lists" update || true # what a list of somebody else lacks need not concern us
        touch "$dir/.apt/updated"
    fi
    apt "$dir/.apt/lists" "${fetch[@]}" >/dev/null
}

grep -v '^#' "$here/debian.txt" | while read -r package; do
    case $package in
        \?*) download "${package#\?}" 2>/dev/null || true ;;
        *) download "$package" ;;
    esac
done
for archive in "$dir"/.apt/cache/archives/*.deb; do
    case $(basename "$archive") in
        libc6_* | libc-bin_* | systemd* | init-system-helpers_*) ;; # the system's own go with its loader
        *) dpkg-deb -x "$archive" "$dir" ;;
    esac
done
rm -rf "$dir/.apt"
