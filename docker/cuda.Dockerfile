# gputensor on an NVIDIA GPU: CuPy and NVRTC come as wheels, so a plain Python image is enough.
#   docker build -f docker/cuda.Dockerfile -t gputensor-cuda .
#   docker run --rm --gpus all -v "$PWD/out:/out" gputensor-cuda
ARG BASE=python:3.12-slim-bookworm
FROM ${BASE}

# cuda12 or cuda13, whichever the host's driver can run.
ARG EXTRA=cuda12
ARG PEERS=""
WORKDIR /gputensor

COPY pyproject.toml README.md LICENSE ./
COPY gputensor gputensor
RUN python3 -m venv /venv \
    && /venv/bin/python -m pip install --no-cache-dir --quiet --editable ".[demo,${EXTRA}]" ${PEERS} \
    && useradd --create-home --uid 1000 bench \
    && mkdir /out && chown bench /out
COPY bench bench

# The NVIDIA container runtime mounts the driver for these.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
# No silent CPU run: without a device the command ends with one sentence.
ENV GPUTENSOR_CUDA=required PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1
USER bench
VOLUME /out
WORKDIR /gputensor
CMD ["python3", "-m", "bench", "run", "overhead", "--device", "cuda:0", "--out", "/out"]
