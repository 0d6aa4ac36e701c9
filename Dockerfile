# The wheel is built apart, so that neither the sources nor the build's tools are in the image.
FROM python:3.11-slim AS build
WORKDIR /src
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-slim
# With `--build-arg EXTRAS=server,ray` the image is one of a Ray cluster, too.
ARG EXTRAS=server
ENV PYTHONUNBUFFERED=1 \
    NUMBA_CACHE_DIR=/var/cache/opserve \
    OPSERVE_GRPC_ADDRESS=0.0.0.0:50051 \
    OPSERVE_REST_ADDRESS=0.0.0.0:8080 \
    OPSERVE_ALLOW_PLAINTEXT=true \
    OPSERVE_STORE_URL=sqlite:////var/lib/opserve/opserve.db
# It needs a key to start, and has no TLS: publish its ports on a loopback address, or behind a proxy.
COPY --from=build /wheels /wheels
COPY constraints.txt /wheels/
RUN wheel="$(echo /wheels/opserve-*.whl)" \
    && pip install --no-cache-dir --constraint /wheels/constraints.txt "${wheel}[${EXTRAS}]" \
    && useradd --system --uid 10001 opserve \
    && install --directory --owner opserve /var/cache/opserve /var/lib/opserve
USER 10001
WORKDIR /tmp
# Compiles every kernel into the image's cache. A machine with another processor compiles them again, once.
RUN opserve warmup
VOLUME /var/lib/opserve
EXPOSE 50051 8080
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8080/livez', timeout=2)"]
CMD ["python", "-m", "opserve_server"]
