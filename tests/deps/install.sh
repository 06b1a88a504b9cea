#!/usr/bin/env bash
# install.sh VENV ARGUMENTS: `pip install ARGUMENTS` into the virtual environment VENV, which needs no pip of its own.
#
# By uv, which is many times as quick; or by pip, which may know of an index or a certificate that uv does not.
set -euo pipefail

venv=$1
shift
bin=$(cd "$(dirname "$0")/../.." && pwd)/.venv/bin
[ -x "$bin/uv" ] && "$bin/uv" pip install --quiet --python "$venv/bin/python" "$@" && exit
exec "$bin/pip" --python "$venv/bin/python" --disable-pip-version-check install --quiet "$@"
