# GRUE without a GPU:  docker build -t grue . && docker run --rm grue            (trains and prints the board, as `make demo`)
# With one:            docker build -t grue --build-arg TORCH_INDEX= . && docker run --rm --gpus all grue grue doctor
# Your own runs:       docker run --rm -v grue-runs:/runs grue grue train --task imdb --algo ppo
FROM python:3.11-slim

# torch for the CPU; empty is PyPI's wheel, which brings CUDA.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
# plot,ray for a cluster, say: docs/how-to/cluster.md.
ARG EXTRAS=plot

RUN apt-get update \
    && apt-get install --yes --no-install-recommends make \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home grue \
    && install --directory --owner grue /grue-bench /runs

USER grue
WORKDIR /grue-bench
COPY --chown=grue . .
RUN make install EXTRAS="$EXTRAS" TORCH_INDEX="$TORCH_INDEX" && rm -rf /home/grue/.cache

ENV PATH=/grue-bench/.venv/bin:$PATH GRUE_RUNS=/runs
CMD ["make", "demo"]
