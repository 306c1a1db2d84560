"""slurmrestd over https: its certificate is verified, and a token leaves this machine by no other way."""

import shutil
import ssl
import subprocess

import pytest

from deployment.adapter import ActionRefusedError
from deployment.slurm.rest import SlurmRestAdapter
from envs.types import MurmurationError
from tests.unit.deployment.test_slurm import OFFERED, RECORDED, Daemon


class SecuredDaemon(Daemon):
    """A stand-in for slurmrestd behind https."""

    def __init__(self, answers, certificate):
        super().__init__(answers)
        secured = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        secured.load_cert_chain(*certificate)
        self.listener.socket = secured.wrap_socket(self.listener.socket, server_side=True)
        self.address = self.address.replace("http:", "https:")


@pytest.fixture
def certificate(tmp_path):
    """A certificate of 127.0.0.1 that no authority has signed, and its key."""
    if not shutil.which("openssl"):
        pytest.skip("no openssl, which makes the certificate")
    made = [str(tmp_path / "certificate"), str(tmp_path / "key")]
    asked = [
        "-nodes",
        "-subj",
        "/CN=127.0.0.1",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-out",
        made[0],
        "-keyout",
        made[1],
    ]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", *asked], check=True, capture_output=True)
    return made


def test_https_is_answered_only_where_the_certificate_is_trusted(certificate, monkeypatch):
    path = "/slurm/v0.0.38/nodes"
    with SecuredDaemon(OFFERED | {path: (200, (RECORDED / "sinfo_22_05.json").read_text())}, certificate) as daemon:
        monkeypatch.delenv("SSL_CERT_FILE", raising=False)
        with pytest.raises(ActionRefusedError, match="certificate verify failed"):
            SlurmRestAdapter(daemon.address, {"SLURM_JWT": "secret"})
        assert not daemon.requests  # the token has not left
        monkeypatch.setenv("SSL_CERT_FILE", certificate[0])
        assert SlurmRestAdapter(daemon.address, {"SLURM_JWT": "secret"}).nodes()
        with pytest.raises(ActionRefusedError, match="certificate verify failed"):  # of another name
            SlurmRestAdapter(daemon.address.replace("127.0.0.1", "localhost"), {})
    assert daemon.requests[-1][2]["X-SLURM-USER-TOKEN"] == "secret"


@pytest.mark.parametrize("name", ["node0", "127.0.0.1.example", "10.0.0.1", "[fe80::1]"])
def test_a_token_is_not_sent_over_plain_http_to_another_machine(name, monkeypatch):
    monkeypatch.setattr(SlurmRestAdapter, "_request", lambda *_: pytest.fail("it was asked"))
    with pytest.raises(
        MurmurationError, match=r"SLURM_JWT is not sent over plain http to another machine; use https://"
    ):
        SlurmRestAdapter(f"http://{name}:6820", {"SLURM_JWT": "secret"})
