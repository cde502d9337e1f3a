"""The configurations in deploy/: each proxy takes its own, and a hub behind nginx keeps its limits."""

from __future__ import annotations

import select
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from latcast.hub.browser import VERSION
from latcast.hub.connections import Door
from latcast.hub.database import HubDatabase
from latcast.hub.limits import MAX_USUAL_BYTES
from latcast.hub.predict_api import MAX_MODEL_BYTES
from latcast.hub.uploads import MAX_BODY_BYTES
from tests.hub.serving import QUICK, listening

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def tool(name: str, package: str) -> str:
    found = shutil.which(name, path="/usr/sbin:/usr/bin:/bin:/usr/local/bin")
    if found is None:
        pytest.skip(f"no {name} here; add it with: apt-get install {package}")
    return found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def nginx(folder: Path, hub: str) -> Iterator[str]:
    """The address of nginx with deploy/nginx.conf, of which ports, the hub and the certificate alone are others."""
    program, openssl = tool("nginx", "nginx-light"), tool("openssl", "openssl")
    subject = ["-subj", "/CN=latcast.example", "-keyout", "key.pem", "-out", "cert.pem"]
    request = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", *subject]
    subprocess.run(request, cwd=folder, check=True, capture_output=True)
    plain, secure = free_port(), free_port()
    text = (DEPLOY / "nginx.conf").read_text()
    for of_file, here in (
        ("listen 80;", f"listen 127.0.0.1:{plain};"),
        ("listen 443 ssl", f"listen 127.0.0.1:{secure} ssl"),
        ("    listen [::]:80;\n", ""),
        ("    listen [::]:443 ssl http2;\n", ""),
        ("/etc/letsencrypt/live/latcast.example/fullchain.pem", str(folder / "cert.pem")),
        ("/etc/letsencrypt/live/latcast.example/privkey.pem", str(folder / "key.pem")),
        ("127.0.0.1:8765", hub.removeprefix("http://")),
    ):
        assert of_file in text
        text = text.replace(of_file, here)
    (folder / "hub.conf").write_text(text)
    kept = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    main = f"daemon off; pid {folder}/pid; events {{}} http {{ access_log off; {kept} include {folder}/hub.conf; }}"
    (folder / "nginx.conf").write_text(main)
    with subprocess.Popen([program, "-p", str(folder), "-c", "nginx.conf", "-e", str(folder / "error.log")]) as process:
        try:
            end_s = time.monotonic() + 20
            while process.poll() is None and time.monotonic() < end_s:
                try:
                    socket.create_connection(("127.0.0.1", secure)).close()
                    break
                except OSError:
                    time.sleep(0.05)
            assert process.poll() is None, (folder / "error.log").read_text()
            yield f"https://127.0.0.1:{secure}"
        finally:
            process.terminate()


def test_a_hub_behind_nginx_answers_and_keeps_its_limits(sqlite: HubDatabase, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for parent in list(tmp_path.parents)[:3]:
        parent.chmod(parent.stat().st_mode | 0o055)  # nginx's workers are another user where it is started by root
    door = Door(per_address=1, proxies=("127.0.0.0/8",))
    with listening(sqlite, replace(QUICK, most_platforms=3), door) as hub, nginx(tmp_path, hub) as url:
        with httpx.Client(base_url=url, verify=False, headers={"host": "latcast.example"}, timeout=120) as http:
            page = http.get("/")
            assert page.status_code == 200
            assert page.headers["content-encoding"] == "gzip"
            assert "https://latcast.example/api/predict" in page.text
            assert page.headers["strict-transport-security"] == "max-age=31536000"
            assert page.headers["content-security-policy"].startswith("default-src 'none'")
            assert http.get("/metrics").status_code == 200  # from this machine
            assert http.post("/api/predict", content=b"hello").status_code == 422
            assert http.get("/nothing").json()["detail"]
            for path, most_bytes in (("/api/predict", 32 << 20), ("/api/measurements", 8 << 20), ("/api/devices", 64 << 10)):
                refused = http.post(path, content=bytes(most_bytes + 1))
                assert (refused.status_code, set(refused.json())) == (413, {"detail"}), path
        with ExitStack() as held:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.maximum_version = ssl.TLSVersion.TLSv1_2  # of 1.3 tickets come, too, before any answer
            port = int(url.rpartition(":")[2])
            connections = []
            for _ in range(66):
                each = held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
                connections.append(held.enter_context(context.wrap_socket(each)))
                connections[-1].sendall(b"POST /api/predict HTTP/1.1\r\nhost: latcast.example\r\ncontent-length: 9\r\n\r\nx")
            readable, _, _ = select.select(connections, [], [], 10)
            assert readable[0].recv(12) == b"HTTP/1.1 429"
            assert len(readable) <= 2


def test_caddy_takes_its_configuration() -> None:
    command = [tool("caddy", "caddy"), "validate", "--adapter", "caddyfile", "--config", str(DEPLOY / "Caddyfile")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_proxies_and_images_are_of_the_same_limits_and_versions_as_the_hub() -> None:
    for name, sizes in (("nginx.conf", ("64k", "8m", "32m")), ("Caddyfile", ("64KB", "8MB", "32MB"))):
        text = (DEPLOY / name).read_text()
        assert all(f"{size}" in text for size in sizes), name
    assert MAX_USUAL_BYTES <= 64 << 10
    assert 7_000_000 < MAX_BODY_BYTES <= 8 << 20
    assert 30_000_000 < MAX_MODEL_BYTES <= 32 << 20
    assert f"onnxruntime-web@{VERSION} " in (ROOT / "Dockerfile").read_text()


def test_containers_write_to_their_volumes_alone_and_have_no_rights_of_root() -> None:
    services = pytest.importorskip("yaml").safe_load((DEPLOY / "compose.yaml").read_text())["services"]

    assert set(services) == {"hub", "caddy"}
    for name, service in services.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert "/tmp" in service["tmpfs"], name
        assert not service.get("privileged"), name
        assert any(volume.endswith(":/data") for volume in service["volumes"]), name
    assert "cap_add" not in services["hub"]
    assert services["caddy"]["cap_add"] == ["NET_BIND_SERVICE"]


def test_images_may_be_named_by_their_digests() -> None:
    services = pytest.importorskip("yaml").safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    lines = (ROOT / "Dockerfile").read_text().splitlines()

    arguments = dict(line.removeprefix("ARG ").split("=") for line in lines if line.startswith("ARG "))
    assert [line.split()[1] for line in lines if line.startswith("FROM ")] == [f"${{{name}}}" for name in arguments]
    assert services["hub"]["build"]["args"] == {name: f"${{{name}:-{image}}}" for name, image in arguments.items()}
    assert services["caddy"]["image"].startswith("${CADDY_IMAGE:-")


def test_packages_of_the_image_are_pinned_by_hash() -> None:
    requirements = (DEPLOY / "requirements.txt").read_text().replace("\\\n", " ").splitlines()
    pinned = [line for line in requirements if line.strip() and not line.lstrip().startswith("#")]

    assert all("==" in line and "--hash=sha256:" in line for line in pinned)
    names = {line.partition("==")[0] for line in pinned}
    assert {"numpy", "onnx", "fastapi", "sqlalchemy", "uvicorn", "hatchling"} <= names
    versions = {line.split()[0] for line in pinned}
    constraints = [line.split()[0] for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    fixed = {line.partition("==")[0].lower().replace("_", "-"): line.partition("==")[2] for line in constraints}
    assert {name: version for name, _, version in (each.partition("==") for each in versions) if name in fixed} == {
        name: fixed[name] for name in names if name in fixed
    }
    installs = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if "pip install" in line]
    assert all("--require-hashes" in line or "--no-deps" in line for line in installs)
