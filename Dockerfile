# docker build --tag glcb .
# docker run --rm --volume glcb:/var/lib/glcb glcb keys add team --role admin
# docker run --publish 127.0.0.1:8000:8000 --volume glcb:/var/lib/glcb glcb
# See docs/deployment.md for PostgreSQL and TLS.

FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
RUN useradd --uid 10001 --home-dir /var/lib/glcb --create-home glcb \
    && install --directory --owner=glcb /var/cache/glcb
COPY --from=build /wheels /wheels
ARG EXTRAS=service
RUN pip install --no-cache-dir "$(echo /wheels/*.whl)[$EXTRAS]" && rm -r /wheels

USER 10001
WORKDIR /var/lib/glcb
ENV NUMBA_CACHE_DIR=/var/cache/glcb \
    GLCB_SERVE_HOST=0.0.0.0 \
    GLCB_SERVE_DATA=/var/lib/glcb/glcb.db
# Compile the kernels now, so that a container is ready within seconds.
RUN glcb warm

VOLUME /var/lib/glcb
EXPOSE 8000
HEALTHCHECK --start-period=60s --interval=10s --timeout=3s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/readyz', timeout=2)"]
ENTRYPOINT ["glcb"]
CMD ["serve"]
