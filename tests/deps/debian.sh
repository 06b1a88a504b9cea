#!/usr/bin/env bash
# Unpacks the packages of Debian that LIST names, and what they need, as far as it is not installed, into DIR.
#
# Nothing is installed: no service runs, no file of the system changes, and nobody needs to be root. The lists of
# packages are those of the system, or, where these are missing or too old, lists of its own in DIR/.apt.
# Usage: debian.sh DIR LIST
set -euo pipefail

dir=$1
list=$2
shopt -s nullglob
mkdir -p "$dir/.apt/lists/partial" "$dir/.apt/cache/archives/partial"

apt() { # apt LISTS ARGUMENT...: apt-get with the package lists in LISTS, and all that it writes in DIR/.apt
    local lists=$1
    shift
    apt-get -qq -o Dir::State="$dir/.apt" -o Dir::State::lists="$lists" -o Dir::State::status=/var/lib/dpkg/status \
        -o Dir::Cache="$dir/.apt/cache" -o Debug::NoLocking=1 -o APT::Sandbox::User="$(id -un)" "$@"
}

fetch() { # fetch LISTS PACKAGE OPTION...: it and what it needs that is not installed
    local lists=$1 package=$2
    shift 2
    apt "$lists" "$@" --yes --no-install-recommends --download-only install "$package" >/dev/null
}

download() { # download PACKAGE: with the system's lists, or else with newer ones
    fetch /var/lib/apt/lists "$1" 2>/dev/null && return
    if [ ! -f "$dir/.apt/updated" ]; then
        apt "$dir/.apt/lists" update || true # what a list of somebody else lacks need not concern us
        touch "$dir/.apt/updated"
    fi
    fetch "$dir/.apt/lists" "$1"
}

optional() { # optional PACKAGE: if Debian has it, this release or its backports
    local release mirror lists=/var/lib/apt/lists own=$dir/.apt/own key=/usr/share/keyrings/debian-archive-keyring.gpg
    fetch /var/lib/apt/lists "$1" 2>/dev/null && return
    release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    [ ! -f "$dir/.apt/updated" ] || lists=$dir/.apt/lists
    mirror=$(apt "$lists" indextargets --format '$(CODENAME) $(REPO_URI)' | awk -v r="$release" '$1 == r { print $2; exit }')
    [ -n "$mirror" ] || return
    mkdir -p "$own/partial"
    for suite in "$release" "$release-backports"; do
        echo "deb [signed-by=$key] $mirror $suite main"
    done >"$own.list"
    local only=(-o Dir::Etc::sourcelist="$own.list" -o Dir::Etc::sourceparts=/dev/null)
    apt "$own" "${only[@]}" update && fetch "$own" "$1" "${only[@]}" --target-release "$release-backports"
}

grep -v '^#' "$list" | while read -r package; do
    case $package in
        \?*) optional "${package#\?}" 2>/dev/null || echo "Debian has no ${package#\?} here: tests go without" ;;
        *) download "$package" ;;
    esac
done
for archive in "$dir"/.apt/cache/archives/*.deb; do
    case $(basename "$archive") in
        libc6_* | libc-bin_* | systemd* | init-system-helpers_*) ;; # the system's own go with its loader
        mariadb-client* | default-mysql-client* | dbconfig-* | fonts-fork-* | libjs-*) ;; # only for the set-up of glewlwyd
        *) dpkg-deb -x "$archive" "$dir" ;;
    esac
done
rm -rf "$dir/.apt"
