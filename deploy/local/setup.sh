#!/bin/sh
# Makes .venv hold exactly what requirements-dev.lock names. Does nothing when it already does.
set -eu
cd "$(dirname "$0")/../.."

say() { echo "setup: $*" >&2; }

python=${PYTHON:-python3}
if ! command -v "$python" >/dev/null 2>&1; then
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || { say "needs Python 3.11 or newer; install python3 and python3-venv"; exit 2; }
    say "no Python found: installing python3 and python3-venv from Debian"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3 python3-venv >/dev/null
fi
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { say "needs Python 3.11 or newer, found $("$python" -V); set PYTHON=/path/to/python"; exit 2; }

wanted=$(sha256sum requirements-dev.lock | cut -d' ' -f1)
[ "$(cat .venv/.lock 2>/dev/null)" = "$wanted" ] && [ -x .venv/bin/python ] && exit 0

say "filling .venv from requirements-dev.lock"
if ! .venv/bin/uv --version >/dev/null 2>&1 || ! .venv/bin/python -c '' 2>/dev/null; then
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        [ "$(id -u)" = 0 ] || { say "this Python lacks venv: install python3-venv"; exit 2; }
        say "this Python lacks venv: installing python3-venv from Debian"
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null
    fi
    "$python" -m venv --clear .venv
    # pip only fetches uv, in the version and with the hash of the lock file; uv does the rest, several times faster.
    awk '/^uv==/{p=1} p{print} p&&!/\\$/{exit}' requirements-dev.lock > .venv/uv.txt
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r .venv/uv.txt
fi
.venv/bin/uv pip sync --quiet --require-hashes --compile-bytecode --python .venv/bin/python requirements-dev.lock
echo "$wanted" > .venv/.lock
