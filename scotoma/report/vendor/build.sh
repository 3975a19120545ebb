#!/usr/bin/env bash
# Makes vega.js and LICENSES.md from the packages that package-lock.json names; the same bytes
# every time. Writes beside itself, or into the folder given. Needs node and npm.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(cd "${1:-$here}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here"/{package.json,package-lock.json,entry.js,bundle.mjs} "$work"
cd "$work"
npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2
node bundle.mjs
cp vega.js LICENSES.md "$out"
