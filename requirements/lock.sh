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

lock cpu --override overrides-cpu.txt ${1:+"$1"}
lock test --override overrides-cpu.txt --override overrides-flashinfer.txt --constraint cpu.txt ${1:+"$1"}
lock gpu ${1:+"$1"}
lock build ${1:+"$1"}
# Entries whose condition never holds are of no use to an installer.
for name in cpu test gpu build; do
    awk '/^[^ #]/ { drop = /never/ } !drop' "$name.txt" >"$name.tmp"
    mv "$name.tmp" "$name.txt"
done
