# sweeper and everything that a cluster's containers run; built by docker-compose.yml.

FROM python:3.12.12-slim-bookworm AS build
# Builds of torch for CPUs alone are a tenth the size; `--build-arg TORCH_INDEX=...` for others.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN python -m venv /opt/sweeper
ENV PATH=/opt/sweeper/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN pip install --index-url "$TORCH_INDEX" "torch>=2.10,<2.14"
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY sweeper ./sweeper
RUN pip install ".[postgres,mujoco,atari]"

FROM python:3.12.12-slim-bookworm AS runtime
RUN useradd --uid 10001 --create-home sweeper && install --directory --owner=sweeper /leases /state
COPY --from=build /opt/sweeper /opt/sweeper
# Study files name environments of theirs in modules beside them.
ENV PATH=/opt/sweeper/bin:$PATH PYTHONUNBUFFERED=1 PYTHONPATH=/home/sweeper/studies RAY_USAGE_STATS_ENABLED=0
USER sweeper
WORKDIR /home/sweeper
CMD ["sweeper", "--help"]
