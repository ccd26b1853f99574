#!/usr/bin/env bash
# Everything that needs a real NVIDIA GPU, in one go and without a network: the CUDA tests on the
# device, then the benchmarks. Writes a log and JSON records to $OUT if that is set, else to
# bench/results/. Needs python3 with numpy, ml_dtypes, pytest and CuPy; PyTorch is a peer if present.
#
#   bench/gpu_check.sh            # under eight minutes; exit 1 if a test failed
set -uo pipefail
cd "$(dirname "$0")/.."
out="${OUT:-bench/results}"
mkdir -p "$out"
python="${PYTHON:-python3}"
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
export GPUTENSOR_CUDA=required GPUTENSOR_REQUIRE_CUDA=1
log="$out/gpu_check.log"
: >"$log"
status=0

step() { # step NAME SECONDS COMMAND...
  local name=$1 limit=$2 begin=$SECONDS
  shift 2
  echo "== $name: $*" | tee -a "$log"
  timeout "$limit" "$@" >>"$log" 2>&1
  local rc=$?
  echo "== $name: exit $rc after $((SECONDS - begin)) s" | tee -a "$log"
  [ $rc -eq 0 ] || status=1
}

nvidia-smi 2>&1 | head -15 >>"$log"
step doctor 60 "$python" -m gputensor doctor
step tests 240 "$python" -m pytest -q -p no:cacheprovider -m "not oracle and not emulator" \
  --junitxml="$out/gpu_tests.xml" tests/cuda tests/test_ops_cpu_vs_cuda.py
step examples 120 "$python" -m gputensor kernel check --on gpu --no-compile examples/blur/*.cu
step overhead-cpu 60 "$python" -m bench run overhead --device cpu --out "$out"
step overhead-cuda 60 "$python" -m bench run overhead --device cuda:0 --out "$out"
step layout-cuda 150 "$python" -m bench run layout --device cuda:0 --out "$out"
step pack-cuda 60 "$python" -m bench run pack --device cuda:0 --out "$out"
step layout-report 20 "$python" -m bench report "$out/layout-cuda.json"
tail -n 60 "$log"
exit $status
