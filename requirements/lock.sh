#!/bin/sh
# Write the complete, pinned sets: requirements/lock.sh [--upgrade]. Needs uv (`pip install uv`).
set -eu
cd "$(dirname "$0")"

lock() { # lock NAME [uv options]: NAME.in → NAME.txt
    name=$1
    shift
    uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --no-emit-find-links \
        --generate-hashes --custom-compile-command "requirements/lock.sh" --override overrides-demo.txt "$@" --output-file "$name.txt" "$name.in"
}

upgrade=${1-}
lock cpu --override overrides-cpu.txt $upgrade
lock test --override overrides-cpu.txt --constraint cpu.txt $upgrade
lock gpu $upgrade
# Entries whose condition never holds are of no use to an installer.
for name in cpu test gpu; do
    awk '/^[^ #]/ { drop = /never/ } !drop' "$name.txt" >"$name.tmp"
    mv "$name.tmp" "$name.txt"
done
