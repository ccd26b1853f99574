# gputensor without a GPU: by default the host-cost benchmark against NumPy, and PyTorch where it is added.
#   docker build -f docker/cpu.Dockerfile -t gputensor-cpu .
#   docker run --rm -v "$PWD/out:/out" gputensor-cpu
ARG BASE=python:3.12-slim-bookworm
FROM ${BASE}

# --build-arg PEERS="torch==2.13.0" adds the peer; it is larger than all the rest together.
ARG PEERS=""
WORKDIR /gputensor

# Dependencies first: they change less often than the source.
RUN python3 -m venv /venv \
    && /venv/bin/python -m pip install --no-cache-dir --quiet "numpy>=2.0" ml_dtypes pillow matplotlib ${PEERS}
COPY pyproject.toml README.md LICENSE ./
COPY gputensor gputensor
COPY bench bench
RUN /venv/bin/python -m pip install --no-cache-dir --quiet --no-deps --editable . \
    && useradd --create-home --uid 1000 bench \
    && mkdir /out && chown bench /out

ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1
USER bench
VOLUME /out
WORKDIR /gputensor
CMD ["python3", "-m", "bench", "run", "overhead", "--out", "/out"]
