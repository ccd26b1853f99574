#!/usr/bin/env bash
# Everything that needs a real NVIDIA GPU, in two commands of at most nine minutes without a network.
#
#   bench/gpu_check.sh prepare         # before, where there is git and NVRTC: cubins, commit -> .carried/
#   bench/gpu_check.sh correct         # are results right: operators, copies, streams, memory, PyTorch
#   bench/gpu_check.sh measure         # are they fast: memcpy, layouts, packing, host cost, operators
#   bench/gpu_check.sh correct --dry   # the same steps on the emulator, with little of each
#
# Results come as gpu_check-*.{md,json,tar.gz} in $OUT, else in out/. `--help` says the rest.
cd "$(dirname "$0")/.." || exit 2
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
exec "${PYTHON:-python3}" -m bench.gpu_check "$@"
