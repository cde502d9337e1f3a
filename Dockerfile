# A hub of measurements: docker build -t latcast-hub . && docker run -p 8765:8765 -v latcast-hub:/data latcast-hub
FROM python:3.12-slim

COPY . /source
RUN pip install --no-cache-dir -c /source/constraints.txt "/source[server]" && rm -rf /source \
    && useradd --create-home latcast && install -d -o latcast /data

USER latcast
ENV LATCAST_HOME=/data
VOLUME /data
EXPOSE 8765
ENTRYPOINT ["latcast", "hub"]
CMD ["serve", "--host", "0.0.0.0"]
