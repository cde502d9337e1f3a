# A hub of measurements: docker build -t latcast-hub . && docker run -p 8765:8765 -v latcast-hub:/data latcast-hub
# docs/public_hub.md says how to name both images by their digests.
ARG NODE_IMAGE=node:22-slim
ARG PYTHON_IMAGE=python:3.12-slim

FROM ${NODE_IMAGE} AS browser
# The version is that of latcast.hub.browser.VERSION, which refuses another.
RUN npm pack onnxruntime-web@1.30.0 --silent && mv onnxruntime-web-*.tgz /onnxruntime-web.tgz

FROM ${PYTHON_IMAGE}
COPY deploy/requirements.txt /source/deploy/
# Every package by its hash, the one that builds latcast too, so that nothing else is fetched afterwards.
RUN pip install --no-cache-dir --require-hashes -r /source/deploy/requirements.txt
COPY . /source
COPY --from=browser /onnxruntime-web.tgz /tmp/
RUN pip install --no-cache-dir --no-deps --no-build-isolation /source && rm -rf /source \
    && latcast hub assets /tmp/onnxruntime-web.tgz -o "$(python -c 'from latcast.hub.browser import PACKAGED; print(PACKAGED)')" \
    && rm /tmp/onnxruntime-web.tgz \
    && useradd --create-home latcast && install -d -o latcast /data

USER latcast
ENV LATCAST_HOME=/data
VOLUME /data
EXPOSE 8765
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8765/api/health', timeout=4)"]
ENTRYPOINT ["latcast", "hub"]
CMD ["serve", "--host", "0.0.0.0"]
