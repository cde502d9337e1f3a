# A hub of measurements: docker build -t latcast-hub . && docker run -p 8765:8765 -v latcast-hub:/data latcast-hub
FROM node:22-slim AS browser
# The version is that of latcast.hub.browser.VERSION, which refuses another.
RUN npm pack onnxruntime-web@1.30.0 --silent && mv onnxruntime-web-*.tgz /onnxruntime-web.tgz

FROM python:3.12-slim
COPY . /source
COPY --from=browser /onnxruntime-web.tgz /tmp/
RUN pip install --no-cache-dir -c /source/constraints.txt "/source[server]" && rm -rf /source \
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
