"""Credentials and the way to Kubeflow: token, cookie or service account; proxy; certificates."""

from __future__ import annotations

import json
import os
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scotoma.errors import ConfigError
from scotoma.pipelines import faults


def client_of(endpoint: str) -> Any:
    """Make a client of KFP's API with the credentials of the environment or of this pod.

    The token is SCOTOMA_KFP_TOKEN, else a service account's, from the file that
    KF_PIPELINES_SA_TOKEN_PATH names or from the kubelet's. SCOTOMA_KFP_COOKIE is sent too.

    Raises:
        ConfigError: KF_PIPELINES_SA_TOKEN_PATH names no file.
    """
    import kfp_server_api as api
    from kfp.client import KF_PIPELINES_SA_TOKEN_ENV, KF_PIPELINES_SA_TOKEN_PATH
    from kfp.client.set_volume_credentials import ServiceAccountTokenVolumeCredentials

    settings = api.Configuration(host=endpoint)
    settings.retries = False  # `patiently` repeats; a redirect leads to a login page
    settings.ssl_ca_cert = os.environ.get("SSL_CERT_FILE") or os.environ.get("REQUESTS_CA_BUNDLE")
    host, scheme = urlsplit(endpoint).netloc, urlsplit(endpoint).scheme
    if not urllib.request.proxy_bypass(host):
        settings.proxy = urllib.request.getproxies().get(scheme)
    token_file = os.environ.get(KF_PIPELINES_SA_TOKEN_ENV) or KF_PIPELINES_SA_TOKEN_PATH
    settings.api_key_prefix["authorization"] = "Bearer"
    if token := os.environ.get("SCOTOMA_KFP_TOKEN"):
        settings.api_key["authorization"] = token.strip()
    elif Path(token_file).is_file():
        # Read again for each request: the kubelet renews it.
        credentials = ServiceAccountTokenVolumeCredentials(token_file)
        credentials.refresh_api_key_hook(settings)
        settings.refresh_api_key_hook = credentials.refresh_api_key_hook
    elif os.environ.get(KF_PIPELINES_SA_TOKEN_ENV):
        raise ConfigError(
            f"{KF_PIPELINES_SA_TOKEN_ENV} must name a file with a token, got {token_file}; correct "
            "it, or set SCOTOMA_KFP_TOKEN"
        )

    class Client(api.ApiClient):  # type: ignore[misc]
        """A client that waits for no answer for ever, and reads none of another server."""

        def deserialize(self, response: Any, response_type: Any) -> Any:
            answer = super().deserialize(response, response_type)
            if fields := getattr(answer, "attribute_map", None):
                told = json.loads(response.data)
                if told and not {*told} & {*fields.values()}:
                    raise faults.Foreign
            return answer

        def request(self, *arguments: Any, **options: Any) -> Any:
            options["_request_timeout"] = options.get("_request_timeout") or faults.TIMEOUTS_S
            return super().request(*arguments, **options)

    return Client(settings, cookie=os.environ.get("SCOTOMA_KFP_COOKIE"))
