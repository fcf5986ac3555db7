# Two images. `docker build .` adds Lorikeet to vLLM's own GPU image; `docker build --target cpu .` makes one that
# serves on machines without a GPU, from the packages that `make serve` installs there. See docs/deploy.md.

ARG BASE_IMAGE=vllm/vllm-openai:v0.32.0
ARG CPU_BASE_IMAGE=python:3.11-slim-bookworm

# Our wheel and the init process; only what is copied out of here is in an image.
FROM ${CPU_BASE_IMAGE} AS build
SHELL ["/bin/sh", "-eu", "-c"]
# hadolint ignore=DL3008
RUN apt-get update; \
    apt-get install --yes --no-install-recommends tini; \
    rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY requirements/build.txt requirements/
RUN python3 -m venv /build; \
    /build/bin/pip install --no-cache-dir --require-hashes --requirement requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY tuned_configs tuned_configs
COPY kernels kernels
COPY serve serve
RUN /build/bin/pip wheel --no-deps --no-build-isolation --no-index --wheel-dir /wheel .

# The pinned packages of the CPU image, the same that `make serve` installs.
FROM ${CPU_BASE_IMAGE} AS cpu-packages
SHELL ["/bin/sh", "-eu", "-c"]
WORKDIR /opt/lorikeet
COPY requirements/install.py requirements/cpu.txt requirements/
RUN UV_NO_CACHE=1 python3 requirements/install.py cpu --packages; \
    .venv/bin/uv pip uninstall --python .venv/bin/python pip uv

FROM ${CPU_BASE_IMAGE} AS cpu
SHELL ["/bin/sh", "-eu", "-c"]
LABEL org.opencontainers.image.title="Lorikeet, CPU" \
      org.opencontainers.image.description="One base model, many LoRA adapters, on vLLM" \
      org.opencontainers.image.licenses="Apache-2.0"
# hadolint ignore=DL3008
RUN apt-get update; \
    apt-get install --yes --no-install-recommends libnuma1; \
    rm -rf /var/lib/apt/lists/*
COPY --from=build /usr/bin/tini-static /usr/bin/tini
COPY --from=cpu-packages /opt/lorikeet/.venv /opt/lorikeet/.venv
COPY --from=build /wheel /wheel
# Any user of group 0 can write to /cache. Nothing else has to be writable but /tmp.
RUN python3 -m pip --python /opt/lorikeet/.venv/bin/python install --no-deps --no-index --no-cache-dir /wheel/*; \
    mkdir -p /cache/home; \
    chown -R 2000:0 /cache; \
    chmod -R g=u /cache
ENV PATH=/opt/lorikeet/.venv/bin:$PATH \
    LORIKEET_CACHE_DIR=/cache \
    HOME=/cache/home \
    USER=lorikeet \
    HF_HOME=/cache/huggingface \
    PYTHONSAFEPATH=1 \
    PYTHONDONTWRITEBYTECODE=1
USER 2000:0
WORKDIR /cache
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
    CMD ["python3", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/livez', timeout=4)"]
ENTRYPOINT ["tini", "--", "lorikeet"]
CMD ["demo"]

FROM ${BASE_IMAGE} AS gpu
SHELL ["/bin/sh", "-eu", "-c"]
LABEL org.opencontainers.image.title="Lorikeet" \
      org.opencontainers.image.description="One base model, many LoRA adapters, on vLLM" \
      org.opencontainers.image.licenses="Apache-2.0"
USER 0
COPY --from=build /usr/bin/tini-static /usr/bin/tini
COPY --from=build /wheel /wheel
# All that Lorikeet imports comes with vLLM: printing the usage shows that it is there.
RUN python3 -m pip install --no-deps --no-index --no-cache-dir /wheel/*; \
    lorikeet --help; \
    mkdir -p /cache/home; \
    chown -R 2000:0 /cache; \
    chmod -R g=u /cache
ENV LORIKEET_CACHE_DIR=/cache \
    HOME=/cache/home \
    USER=lorikeet \
    HF_HOME=/cache/huggingface \
    PYTHONSAFEPATH=1 \
    PYTHONDONTWRITEBYTECODE=1
USER 2000:0
WORKDIR /cache
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
    CMD ["python3", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/livez', timeout=4)"]
ENTRYPOINT ["tini", "--", "lorikeet"]
CMD ["--help"]
