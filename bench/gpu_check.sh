#!/usr/bin/env bash
# Everything that needs a real NVIDIA GPU, in one go and without a network: first whether results are
# right (copy kernels, the runtime's interface, the own-kernel examples, all operators), then the
# benchmarks. Writes gpu_check.log, gpu_check.json (each step's exit status and seconds) and the
# records to $OUT if that is set, else to bench/results/. Needs python3 with numpy, ml_dtypes, pytest
# and CuPy; PyTorch is a peer if present.
#
#   bench/gpu_check.sh            # under eight minutes; exit 1 if a step failed
#   bench/gpu_check.sh --dry      # the same steps on the emulator, with little of each
#
# A step that fails or runs out of time does not stop the ones after it. The limits add up to less
# than BUDGET, and no step begins behind it. (The emulator compiles for minutes: it has ten times both.)
set -uo pipefail
cd "$(dirname "$0")/.."
out="${OUT:-bench/results}"
mkdir -p "$out" || exit 2
python="${PYTHON:-python3}"
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
BUDGET="${GPU_CHECK_BUDGET:-475}" slack=1 # seconds
copies=(400 1 300000 300) where=gpu device=cuda:0 layout=(--peers torch,cupy --rounds 10) few=()
export GPUTENSOR_CUDA=required GPUTENSOR_REQUIRE_CUDA=1
if [ "${1:-}" = --dry ]; then
  copies=(6 1 3000) where=emulator layout=(--peers numpy --rounds 1 --scale 16) few=(-k "add or clone")
  export GPUTENSOR_CUDA=emulator GPUTENSOR_EMULATOR_DEVICES=2
  unset GPUTENSOR_REQUIRE_CUDA
  slack=10
elif [ $# -gt 0 ]; then
  echo "gpu_check: unknown argument $1" >&2
  exit 2
fi
log="$out/gpu_check.log" json="$out/gpu_check.json"
: >"$log"
steps="" status=0

step() { # step NAME SECONDS COMMAND...
  local name=$1 limit=$(($2 * slack)) begin=$SECONDS rc
  shift 2
  local left=$((BUDGET * slack - SECONDS))
  [ "$limit" -le "$left" ] || limit=$left
  echo "== $name: $*" | tee -a "$log"
  if [ "$limit" -gt 0 ]; then
    timeout -k 2 "$limit" "$@" >>"$log" 2>&1
    rc=$?
  else
    rc=124 # no time is left
  fi
  echo "== $name: exit $rc after $((SECONDS - begin)) s" | tee -a "$log"
  [ $rc -eq 0 ] || status=1
  steps+="${steps:+, }{\"name\": \"$name\", \"exit\": $rc, \"seconds\": $((SECONDS - begin))}"
  # After each step, so that there is something to read whenever this is cut off.
  printf '{"status": %d, "seconds": %d, "steps": [%s]}\n' $status $SECONDS "$steps" >"$json"
}

pytest=("$python" -m pytest -q -p no:cacheprovider -m "not oracle and not emulator")
bench=("$python" -m bench run)

nvidia-smi 2>&1 | head -15 >>"$log"
step doctor 15 "$python" -m gputensor doctor
step copies 60 "$python" -m tests.cuda.test_copy_kernels "${copies[@]}"
step runtime 30 "${pytest[@]}" --junitxml="$out/gpu_runtime.xml" tests/cuda/test_runtime_conformance.py
step examples 30 "$python" -m gputensor kernel check --on $where --no-compile examples/blur/*.cu
step operators 70 "${pytest[@]}" --junitxml="$out/gpu_operators.xml" "${few[@]}" \
  tests/test_ops_cpu_vs_cuda.py
# Cases of layout_cases.py, a record for each part: what is cut off takes no other part with it.
step layout-planes 60 "${bench[@]}" layout --device $device "${layout[@]}" --out "$out/planes" \
  --cases 1,2,3,6,7,8,9,10,11,12,13,38
step layout-images 60 "${bench[@]}" layout --device $device "${layout[@]}" --out "$out/images" \
  --cases 14,15,16,17,18,19,20,21,22,23,24
step layout-others 60 "${bench[@]}" layout --device $device "${layout[@]}" --out "$out/others" \
  --cases 4,5,25,26,27,28,29,30,31,32,33,34,35,36,37
step pack 35 "${bench[@]}" pack --device $device "${layout[@]}" --out "$out"
step overhead 40 "${bench[@]}" overhead --device $device --out "$out"
for part in planes images others; do
  step "report-$part" 5 "$python" -m bench report "$out/$part/layout-cuda.json"
done
tail -n 60 "$log"
exit $status
