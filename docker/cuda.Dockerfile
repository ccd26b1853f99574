# gputensor on an NVIDIA GPU: measures the 38 layout copies and writes record and plots to /out. CuPy
# and NVRTC come as wheels, so a plain Python image is enough.
#   docker build -f docker/cuda.Dockerfile -t gputensor-cuda .
#   docker run --rm --gpus all --read-only --tmpfs /tmp -v "$PWD/out:/out" gputensor-cuda
# --target peers adds PyTorch with its CUDA libraries.
ARG BASE=python:3.12.11-slim-bookworm
FROM ${BASE} AS wheels

# cuda12 or cuda13, whichever the host's driver can run.
ARG EXTRA=cuda12
WORKDIR /gputensor
# Wheels first, by hash: they change less often than the source.
COPY docker/requirements/base.txt docker/requirements/${EXTRA}.txt docker/requirements/
RUN python3 -m venv /venv \
    && /venv/bin/python -m pip install --no-cache-dir --quiet --require-hashes \
        -r docker/requirements/base.txt -r docker/requirements/${EXTRA}.txt
ENV PATH=/venv/bin:$PATH

# The CPU's loops are compiled here, so that no compiler is in the image.
FROM wheels AS loops
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends g++ $(test -e \
        "$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["include"])')/Python.h" \
        || echo python3-dev) >/dev/null
COPY build_library.py ./
COPY gputensor/kernels gputensor/kernels
RUN GPUTENSOR_REQUIRE_LIBRARY=1 python3 build_library.py

FROM wheels AS base
COPY pyproject.toml setup.py build_library.py README.md LICENSE ./
COPY gputensor gputensor
COPY --from=loops /gputensor/gputensor/kernels/compiled/_library.abi3.so gputensor/kernels/compiled/
COPY bench bench
# The root file system is read-only when the image runs, so Python compiles its files here.
ENV PYTHONUNBUFFERED=1 MPLCONFIGDIR=/tmp/matplotlib \
    GPUTENSOR_CACHE_DIR=/venv/kernels CUPY_CACHE_DIR=/tmp/cupy
RUN GPUTENSOR_BUILD_CAPABILITIES=default python3 -m pip install --no-cache-dir --quiet --no-deps \
        --no-build-isolation --editable . \
    && python3 -m compileall -q gputensor bench \
    && useradd --create-home --uid 1000 bench \
    && mkdir /out && chown bench /out
# Kernels for these GPUs are compiled now, by NVRTC, which needs no GPU: A100, L4 and RTX 40, H100 and
# H200, B200, RTX 50. Another GPU compiles what it needs when it runs. WARM=--all takes every kernel.
ARG ARCHS="sm_80 sm_89 sm_90 sm_100 sm_120"
ARG WARM=""
RUN gputensor cache warm ${WARM} $(printf -- '--arch %s ' ${ARCHS}) && rm -rf /tmp/cupy
# What a record says of the build: --build-arg COMMIT="$(git rev-parse HEAD)".
ARG COMMIT=""
ENV GPUTENSOR_COMMIT=${COMMIT}
# The NVIDIA container runtime mounts the driver for these.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
# No silent CPU run: without a device the command ends with one sentence.
ENV GPUTENSOR_CUDA=required
VOLUME /out
CMD ["python3", "-m", "bench", "run", "layout", "--device", "cuda:0", "--out", "/out"]

FROM base AS peers
# torch.compile is a peer too, and needs a compiler: Triton compiles its launchers.
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends g++ >/dev/null \
    && rm -rf /var/lib/apt/lists/*
COPY docker/requirements/peers-cuda.txt docker/requirements/
RUN python3 -m pip install --no-cache-dir --quiet --require-hashes -r docker/requirements/peers-cuda.txt
USER bench

FROM base AS lean
USER bench
