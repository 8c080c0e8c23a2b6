#!/usr/bin/env bash
# Installs what building burn-mlir needs: LLVM 22 with MLIR, a C++ compiler, Rust. Does nothing where
# it is there already.
set -euo pipefail

packages="g++ make llvm-22-dev libmlir-22-dev mlir-22-tools libpolly-22-dev libclang1-22
  libclang-common-22-dev libzstd-dev zlib1g-dev libxml2-dev libz3-dev libffi-dev"
missing=""
for package in $packages; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $package"
done
if [ -n "$missing" ]; then
  echo "installing:$missing"
  sudo=""
  [ "$(id -u)" = 0 ] || sudo=sudo
  export DEBIAN_FRONTEND=noninteractive
  $sudo apt-get update -qq
  # shellcheck disable=SC2086
  $sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi
if ! command -v cargo >/dev/null; then
  echo "Rust is missing: install it from https://rustup.rs (1.95 or later)" >&2
  exit 1
fi
