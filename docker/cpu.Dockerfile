# gputensor without a GPU: measures the 38 layout copies and writes record and plots to /out.
#   docker build -f docker/cpu.Dockerfile -t gputensor-cpu .
#   docker run --rm --read-only --tmpfs /tmp -v "$PWD/out:/out" gputensor-cpu
# --target peers adds PyTorch, which is larger than all the rest together.
ARG BASE=python:3.12.11-slim-bookworm
FROM ${BASE} AS wheels

WORKDIR /gputensor
# Wheels first, by hash: they change less often than the source.
COPY docker/requirements/base.txt docker/requirements/
RUN python3 -m venv /venv \
    && /venv/bin/python -m pip install --no-cache-dir --quiet --require-hashes -r docker/requirements/base.txt
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
ENV PYTHONUNBUFFERED=1 MPLCONFIGDIR=/tmp/matplotlib
RUN GPUTENSOR_BUILD_CAPABILITIES=default python3 -m pip install --no-cache-dir --quiet --no-deps \
        --no-build-isolation --editable . \
    && python3 -m compileall -q gputensor bench \
    && useradd --create-home --uid 1000 bench \
    && mkdir /out && chown bench /out
# What a record says of the build: --build-arg COMMIT="$(git rev-parse HEAD)".
ARG COMMIT=""
ENV GPUTENSOR_COMMIT=${COMMIT}
VOLUME /out
CMD ["python3", "-m", "bench", "run", "layout", "--device", "cpu", "--out", "/out"]

FROM base AS peers
# torch.compile is a peer too, and needs a compiler: inductor compiles C++.
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends g++ >/dev/null \
    && rm -rf /var/lib/apt/lists/*
# PyTorch's CPU wheel has its own index and no hash of ours; what it needs is locked.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY docker/requirements/peers-cpu.txt docker/requirements/
RUN python3 -m pip install --no-cache-dir --quiet --require-hashes -r docker/requirements/peers-cpu.txt \
    && python3 -m pip install --no-cache-dir --quiet --no-deps --extra-index-url "${TORCH_INDEX}" torch==2.13.0+cpu
USER bench

FROM base AS lean
USER bench
