#!/usr/bin/env bash
# Everything the tests need, then the tests. ptxas, which checks the PTX that is made, comes from
# NVIDIA's Python wheel; it is used by tests only.
set -euo pipefail
cd "$(dirname "$0")/.."

tools=target/test-tools
if [ -z "${BURN_MLIR_PTXAS:-}" ]; then
  if [ ! -x "$tools/ptxas" ]; then
    if ! python3 -m pip --version >/dev/null 2>&1; then
      sudo=""
      [ "$(id -u)" = 0 ] || sudo=sudo
      $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-pip >/dev/null
    fi
    mkdir -p "$tools"
    python3 -m pip download -q --no-deps --only-binary=:all: -d "$tools/wheel" nvidia-cuda-nvcc
    python3 - "$tools" <<'PYTHON'
import glob, os, sys, zipfile
tools = sys.argv[1]
with zipfile.ZipFile(glob.glob(f"{tools}/wheel/*.whl")[0]) as wheel:
    name = next(n for n in wheel.namelist() if n.endswith("bin/ptxas"))
    with open(f"{tools}/ptxas", "wb") as out:
        out.write(wheel.read(name))
os.chmod(f"{tools}/ptxas", 0o755)
PYTHON
  fi
  export BURN_MLIR_PTXAS="$PWD/$tools/ptxas"
fi

# The same random cases every time, so that a change is judged by itself.
export PROPTEST_RNG_SEED="${PROPTEST_RNG_SEED:-2000}"
cargo test --workspace
